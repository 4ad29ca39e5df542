// Batch size and learning rate compared with values worked out by hand from the formulas.
#include <cmath>

#include "catch.h"
#include "spec/run_plan.h"

namespace gptrain::test {

TEST_CASE("the batch grows as in the 175B example") {
    // 95 increments over 5,859,375 samples: one every 61,677.6 samples.
    const BatchSchedule batch = {1536, {16, 16, 5'859'375}};
    CHECK(batch.size_at(0) == 16);
    CHECK(batch.size_at(61'677) == 16);
    CHECK(batch.size_at(61'678) == 32);
    CHECK(batch.size_at(123'355) == 32);
    CHECK(batch.size_at(123'356) == 48);
    CHECK(batch.size_at(5'859'374) == 1520);
    CHECK(batch.size_at(5'859'375) == 1536);
    CHECK(batch.size_at(1'000'000'000'000) == 1536);
}

TEST_CASE("without a ramp the batch is constant") {
    const BatchSchedule batch = {512, {}};
    CHECK(batch.size_at(0) == 512);
    CHECK(batch.samples_of(1'000'000'000'000) == 512'000'000'000'000);
}

TEST_CASE("samples of a number of steps are the sum of their batches") {
    const BatchSchedule batch = GENERATE(
        BatchSchedule{1536, {16, 16, 58'593}}, BatchSchedule{64, {8, 8, 100}},
        BatchSchedule{64, {64, 8, 1000}}, BatchSchedule{12, {2, 5, 7}},
        BatchSchedule{40, {8, 32, 1}}, BatchSchedule{1000, {1, 1, 500}}, BatchSchedule{5, {}});
    std::int64_t consumed = 0;
    for (std::int64_t step = 0; step < 2000; ++step) {
        REQUIRE(batch.samples_of(step) == consumed);
        REQUIRE(batch.steps_of(consumed) == step);
        REQUIRE(batch.steps_of(consumed + 1) == step + 1);
        consumed += batch.size_at(consumed);
    }
}

TEST_CASE("samples of billions of steps are counted at once") {
    const BatchSchedule batch = {1 << 20, {1, 1, std::int64_t{1} << 40}};
    const std::int64_t ramp = batch.samples_of(10'000'000'000) - batch.samples_of(9'000'000'000);
    CHECK(ramp == (std::int64_t{1} << 20) * 1'000'000'000);
}

TEST_CASE("the learning rate of each kind of schedule") {
    const auto at = [](LrKind kind, std::int64_t step, std::int64_t wsd = 0) {
        return LrSchedule{kind, 1.0, 0.1, 10, 100, wsd}.at(step);
    };
    for (const LrKind kind :
         {LrKind::constant, LrKind::linear, LrKind::cosine, LrKind::wsd, LrKind::inverse_sqrt}) {
        CHECK(at(kind, 1, 20) == Approx(0.1));
        CHECK(at(kind, 5, 20) == Approx(0.5));
        CHECK(at(kind, 10, 20) == 1.0);
    }
    CHECK(at(LrKind::constant, 1'000'000) == 1.0);

    CHECK(at(LrKind::linear, 40) == Approx(0.7));  // u = 1/3
    CHECK(at(LrKind::linear, 100) == Approx(0.1));
    CHECK(at(LrKind::linear, 101) == 0.1);

    CHECK(at(LrKind::cosine, 40) == Approx(0.775));  // cos(pi/3) = 1/2
    CHECK(at(LrKind::cosine, 55) == Approx(0.55));
    CHECK(at(LrKind::cosine, 100) == Approx(0.1));
    CHECK(at(LrKind::cosine, 1'000'000'000'000) == Approx(0.1));

    CHECK(at(LrKind::wsd, 80, 20) == 1.0);
    CHECK(at(LrKind::wsd, 90, 20) == Approx(0.55));
    CHECK(at(LrKind::wsd, 100, 20) == Approx(0.1));
    CHECK(at(LrKind::wsd, 200, 20) == Approx(0.1));

    CHECK(at(LrKind::inverse_sqrt, 40) == Approx(0.5));
    CHECK(at(LrKind::inverse_sqrt, 160) == Approx(0.25));
    CHECK(at(LrKind::inverse_sqrt, 100'000) == 0.1);
}

TEST_CASE("the learning rate without a warm-up, or with nothing but one") {
    CHECK(LrSchedule{LrKind::linear, 1.0, 0.0, 0, 10, 0}.at(1) == Approx(0.9));
    CHECK(LrSchedule{LrKind::inverse_sqrt, 1.0, 0.0, 0, 10, 0}.at(1) == 1.0);
    CHECK(LrSchedule{LrKind::inverse_sqrt, 1.0, 0.0, 0, 10, 0}.at(4) == Approx(0.5));
    const LrSchedule all_warmup = {LrKind::cosine, 1.0, 0.25, 10, 10, 0};
    CHECK(all_warmup.at(10) == 1.0);
    CHECK(all_warmup.at(11) == Approx(0.25));
}

}  // namespace gptrain::test
