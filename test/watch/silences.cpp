// How long nothing may move, learned from the run.
#include "watch/silences.h"

#include <algorithm>

#include "catch.h"

namespace gptrain::test {
namespace {

constexpr std::int64_t hang = 600'000;

/// A rank at an action of this step.
RankRecord at_work(std::int64_t step, std::string_view phase = "step") {
    RankRecord record;
    record.phase = ShortText<16>(phase);
    record.step = step;
    record.action = ShortText<64>("F of microbatch 0");
    record.work = 8;
    return record;
}

/// Steps `first` .. `last`, in each of which nothing moves for this long.
void pass_steps(Silences& silences, std::int64_t first, std::int64_t last, std::int64_t silence) {
    for (std::int64_t step = first; step <= last; ++step)
        silences.observe(at_work(step), silence);
}

}  // namespace

TEST_CASE("a silence may last three times as long as the longest of earlier steps") {
    Silences silences(hang, 3);
    CHECK(silences.limit(at_work(1)) == hang);
    // The first step tunes.
    silences.observe(at_work(1), 20'000);
    pass_steps(silences, 2, Silences::first_phases, 3000);
    CHECK(silences.limit(at_work(5)) == hang);
    silences.observe(at_work(6), 0);
    CHECK(silences.limit(at_work(6)) == 60'000);
    silences.observe(at_work(7), 30'000);
    CHECK(silences.limit(at_work(7)) == 90'000);
    silences.observe(at_work(8), 300'000);
    CHECK(silences.limit(at_work(8)) == hang);
}

TEST_CASE("short silences allow five seconds, and never more than hang_seconds") {
    for (const std::int64_t longest : {std::int64_t{60'000}, std::int64_t{2000}}) {
        Silences silences(longest, 3);
        pass_steps(silences, 1, 20, 100);
        CHECK(silences.limit(at_work(20)) == std::min(longest, Silences::shortest_ms));
    }
    Silences none(hang, 0);
    pass_steps(none, 1, 20, 100);
    CHECK(none.limit(at_work(20)) == hang);
}

TEST_CASE("a rank that may wait for a file has the whole time") {
    Silences silences(hang, 3);
    pass_steps(silences, 1, 20, 100);
    RankRecord record = at_work(21);
    record.action = ShortText<64>(loading_batch);
    CHECK(silences.limit(record) == hang);
    silences.observe(record, 200'000);
    // Between the actions it writes the log.
    record.action = {};
    CHECK(silences.limit(record) == hang);
    silences.observe(record, 200'000);
    // While it waits for others these say how long it may.
    record.waiting = 1;
    CHECK(silences.limit(record) == Silences::shortest_ms);
    for (const std::string_view phase : {"load", "save", "tune", "end"})
        CHECK(silences.limit(at_work(21, phase)) == hang);
}

TEST_CASE("evaluations, and steps with more work, are learned anew") {
    Silences silences(hang, 3);
    pass_steps(silences, 1, 20, 1000);
    CHECK(silences.limit(at_work(20, "evaluation")) == hang);
    for (std::int64_t step = 20; step <= 80; step += 10)
        silences.observe(at_work(step, "evaluation"), 4000);
    CHECK(silences.limit(at_work(80, "evaluation")) == 12'000);
    CHECK(silences.limit(at_work(80)) == Silences::shortest_ms);
    RankRecord larger = at_work(81);
    larger.work = 64;
    silences.observe(larger, 0);
    CHECK(silences.limit(larger) == hang);
    for (larger.step = 82; larger.step < 90; ++larger.step)
        silences.observe(larger, 7000);
    CHECK(silences.limit(larger) == 21'000);
    // Less work takes no longer.
    CHECK(silences.limit(at_work(90)) == 21'000);
}

}  // namespace gptrain::test
