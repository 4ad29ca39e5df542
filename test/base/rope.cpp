// The angles of stretched rotations, as the rope functions of transformers 5.23 give them (fp32).
#include "base/rope.h"

#include <vector>

#include "catch.h"

using namespace gptrain;

namespace {

struct Expected {
    std::int64_t pair;
    double frequency;
};

void check(const RopeAngles& angles, double amplitude, const std::vector<Expected>& expected) {
    CHECK(angles.amplitude() == Approx(amplitude).epsilon(1e-12));
    for (const auto& [pair, frequency] : expected) {
        CAPTURE(pair);
        CHECK(angles.frequency(pair) == Approx(frequency).epsilon(1e-6));
    }
}

}  // namespace

TEST_CASE("rotations are stretched as transformers stretches them", "[base]") {
    const RopeScaling llama3 = {
        .kind = RopeScalingKind::llama3, .factor = 8, .original_max_position_embeddings = 8192};
    check({500000, 128, llama3}, 1,
          {{0, 1},
           {1, 0.814617217},
           {25, 0.00594073068},
           {29, 0.00216657063},
           {31, 0.00085675146},
           {33, 0.00031269365},
           {40, 3.42810235e-05},
           {63, 3.06892588e-07}});
    const RopeScaling yarn = {
        .kind = RopeScalingKind::yarn, .factor = 4, .original_max_position_embeddings = 32768};
    check({1000000, 128, yarn}, 1.138629436111989,
          {{0, 1},
           {20, 0.0133352149},
           {25, 0.0041317381},
           {29, 0.00140511245},
           {31, 0.000802959781},
           {40, 4.44569851e-05},
           {63, 3.10234441e-07}});
    const RopeScaling linear = {.factor = 2.5};
    check({10000, 64, linear}, 1, {{0, 0.4}, {1, 0.299957693}, {20, 0.00126491114}});
    check({10000, 64, std::nullopt}, 1, {{0, 1}, {16, 0.01}});
}

TEST_CASE("the amplitude of rotations can be given", "[base]") {
    RopeScaling yarn = {
        .kind = RopeScalingKind::yarn, .factor = 4, .original_max_position_embeddings = 32768};
    yarn.attention_factor = 1.25;
    CHECK(RopeAngles(10000, 64, yarn).amplitude() == 1.25);
}
