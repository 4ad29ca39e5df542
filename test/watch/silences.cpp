// How long nothing may move, learned from the run.
#include "watch/silences.h"

#include <algorithm>
#include <utility>

#include "catch.h"

namespace gptrain::test {
namespace {

constexpr std::int64_t hang = 600'000;

/// A rank at an action of this step.
RankRecord at_work(std::int64_t step, std::string_view phase = "step") {
    RankRecord record;
    record.phase = ShortText<16>(phase);
    record.step = step;
    record.first_step = 1;
    record.action = ShortText<64>("F of microbatch 0");
    record.work = 8;
    return record;
}

/// The silences of a rank's node on a clock that only they move.
struct Watched {
    explicit Watched(std::int64_t longest = hang, double factor = 3) : silences(longest, factor) {}

    /// Nothing moves for this long while the rank is there, as a watchdog sees it: four times a
    /// second.
    void silence(const RankRecord& record, std::int64_t ms, const CoreUse& cores = {}) {
        for (std::int64_t at = 0; at < ms; at += tick)
            silences.observe(record, cores, moved + at, moved);
        silences.observe(record, cores, moved + ms, moved);
        lasted = ms;
    }
    /// Then it moves.
    void move(const RankRecord& record, const CoreUse& cores = {}) {
        moved += std::exchange(lasted, 1);
        silences.observe(record, cores, moved, moved);
    }
    void over(const RankRecord& record, std::int64_t ms) {
        silence(record, ms);
        move(record);
    }
    /// Steps `first` .. `last`, each with one silence.
    void steps(std::int64_t first, std::int64_t last, std::int64_t ms) {
        for (std::int64_t step = first; step <= last; ++step)
            over(at_work(step), ms);
    }
    std::int64_t limit(const RankRecord& record, const CoreUse& cores = {}) const {
        return silences.limit(record, cores);
    }

    static constexpr std::int64_t tick = 250;
    Silences silences;
    std::int64_t moved = 1000;
    std::int64_t lasted = 1;
};

constexpr CoreUse computing = {.computes = true, .waited_ms = 0};

}  // namespace

TEST_CASE("a silence may last three times as long as the longest of earlier steps") {
    Watched run;
    // The first step tunes.
    run.over(at_work(1), 20'000);
    run.steps(2, Silences::first_phases, 3000);
    CHECK(run.limit(at_work(5)) == hang);
    run.over(at_work(6), 100);
    CHECK(run.limit(at_work(6)) == 60'000);
    run.over(at_work(7), 30'000);
    CHECK(run.limit(at_work(7)) == 90'000);
    run.over(at_work(8), 300'000);
    CHECK(run.limit(at_work(8)) == hang);
}

TEST_CASE("in the first two steps a rank that waits for nobody has three times as long") {
    Watched run;
    RankRecord waiting = at_work(1);
    waiting.waiting = 1;
    CHECK(run.limit(at_work(1)) == 3 * hang);
    CHECK(run.limit(at_work(1), computing) == 3 * hang);
    CHECK(run.limit(waiting) == hang);
    CHECK(run.limit(at_work(1, "load")) == hang);
    CHECK(run.limit(at_work(1, "evaluation")) == hang);
    CHECK(run.limit(at_work(2)) == 3 * hang);
    // Steps may be far shorter than the time between two looks: none was seen.
    CHECK(run.limit(at_work(3)) == hang);
    // More work is learned anew, but kernels are there.
    RankRecord larger = at_work(501);
    larger.work = 64;
    run.over(larger, 100);
    CHECK(run.limit(larger) == hang);
}

TEST_CASE("a silence that lasts does not raise its own limit") {
    Watched run;
    run.steps(1, 20, 2000);
    for (const std::int64_t ms : {1000, 3000, 6000, 9000, 100'000}) {
        run.silence(at_work(21), ms);
        CHECK(run.limit(at_work(21)) == 6000);
    }
    // Had it ended, it would count.
    run.move(at_work(21));
    CHECK(run.limit(at_work(21)) == 300'000);
}

TEST_CASE("short silences allow five seconds, and never more than hang_seconds") {
    for (const std::int64_t longest : {std::int64_t{60'000}, std::int64_t{2000}}) {
        Watched run(longest);
        run.steps(1, 20, 100);
        CHECK(run.limit(at_work(20)) == std::min(longest, Silences::shortest_ms));
    }
    Watched none(hang, 0);
    none.steps(1, 20, 100);
    CHECK(none.limit(at_work(20)) == hang);
}

TEST_CASE("a rank that may wait for a file has the whole time") {
    Watched run;
    run.steps(1, 20, 100);
    RankRecord record = at_work(21);
    record.action = ShortText<64>(loading_batch);
    CHECK(run.limit(record) == hang);
    run.over(record, 200'000);
    // Between the actions it writes the log.
    record.action = {};
    CHECK(run.limit(record) == hang);
    run.over(record, 200'000);
    // While it waits for others these say how long it may.
    record.waiting = 1;
    CHECK(run.limit(record) == Silences::shortest_ms);
    for (const std::string_view phase : {"load", "save", "tune", "end"})
        CHECK(run.limit(at_work(21, phase)) == hang);
}

TEST_CASE("a rank that computes, however slowly, has the whole time") {
    Watched run;
    run.steps(1, 20, 100);
    CHECK(run.limit(at_work(21), computing) == hang);
    CHECK(run.limit(at_work(21)) == Silences::shortest_ms);
    // One that waits for others may spin.
    RankRecord waiting = at_work(21);
    waiting.waiting = 1;
    CHECK(run.limit(waiting, computing) == Silences::shortest_ms);
}

TEST_CASE("where other programs have the cores a silence may last up to three times as long") {
    Watched run;
    run.steps(1, 20, 100);
    RankRecord waiting = at_work(21);
    waiting.waiting = 1;
    run.silence(waiting, 4000, {.computes = true, .waited_ms = 7000});
    // What counts is the time since the silence began.
    run.move(waiting, {.computes = true, .waited_ms = 7000});
    CHECK(run.limit(waiting, {.computes = true, .waited_ms = 7000}) == 12'000);
    CHECK(run.limit(waiting, {.computes = true, .waited_ms = 7600}) == 12'600);
    CHECK(run.limit(waiting, {.computes = true, .waited_ms = 90'000}) == 36'000);
}

TEST_CASE("evaluations, and steps with more work, are learned anew") {
    Watched run;
    run.steps(1, 20, 1000);
    CHECK(run.limit(at_work(20, "evaluation")) == hang);
    for (std::int64_t step = 20; step <= 80; step += 10)
        run.over(at_work(step, "evaluation"), 4000);
    CHECK(run.limit(at_work(80, "evaluation")) == 12'000);
    CHECK(run.limit(at_work(80)) == Silences::shortest_ms);
    RankRecord larger = at_work(81);
    larger.work = 64;
    run.over(larger, 100);
    CHECK(run.limit(larger) == hang);
    for (larger.step = 82; larger.step < 90; ++larger.step)
        run.over(larger, 7000);
    CHECK(run.limit(larger) == 21'000);
    // Less work takes no longer.
    CHECK(run.limit(at_work(90)) == 21'000);
}

}  // namespace gptrain::test
