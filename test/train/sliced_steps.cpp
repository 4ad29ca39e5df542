#include "train/sliced_steps.h"

#include "catch.h"

namespace gptrain {
namespace {

/// The step, counted from 1, at which it reports; 0: not within 2000 steps. The first `slow` steps
/// of each 400 have slices.
int reported_at(int slow) {
    SlicedSteps steps;
    int found = 0;
    for (int step = 1; step <= 2000; ++step) {
        if (!steps.add((step - 1) % 400 < slow ? 2 : 1)) continue;
        CHECK(found == 0);
        found = step;
    }
    return found;
}

TEST_CASE("a run reports once that most of its steps have slices") {
    CHECK(reported_at(400) == 301);
    CHECK(reported_at(301) == 301);
}

TEST_CASE("a run whose slices fall reports nothing") {
    CHECK(reported_at(300) == 0);
    CHECK(reported_at(0) == 0);
}

}  // namespace
}  // namespace gptrain
