// Steps that have to be repeated. Here no row lacks a place: the state of an engine says that a
// step waits to be repeated, so the next one updates nothing until it is.
#include "train/step_runner.h"

#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "catch.h"
#include "comm/mpi_session.h"
#include "tiny_run.h"
#include "watch/watchdog.h"

namespace gptrain::test {
namespace {

/// A runner of a small model. A slice is nothing to a model without experts, so slices change no
/// bit.
class Steps {
public:
    explicit Steps(const ExpertSlices& slices)
        : runner_(run_.engine(), nullptr, observers_, slices) {
        runner_.begin();
    }

    /// The next step to be issued has to be repeated.
    void wait() {
        StepState state = run_.engine().read_state();
        state.waits = 1;
        run_.engine().restore(state);
    }
    void issue(std::int64_t step) { take(runner_.issue(random_batch(run_.plan(), step), 0)); }
    void finish() { take(runner_.finish()); }

    const std::vector<FinishedStep>& finished() const { return finished_; }
    NamedValues weights() { return run_.state("weight"); }
    /// The state with which a run would resume.
    StepState state() { return run_.engine().read_state(); }

private:
    void take(const std::optional<FinishedStep>& finished) {
        if (finished) finished_.push_back(*finished);
    }

    MpiSession session_;
    Watchdog watchdog_{session_, {.hang_seconds = 0}};
    Observers observers_{watchdog_};
    TinyRun run_{tiny_spec()};
    StepRunner runner_;
    std::vector<FinishedStep> finished_;
};

ExpertSlices saved_slices(std::int64_t most, std::int64_t now, std::int64_t since) {
    ExpertSlices slices(most);
    slices.restore({{"slices", now}, {"since", since}, {"repeats", 0}}, "test");
    return slices;
}

void check_same_steps(Steps& steps, Steps& expected) {
    REQUIRE(steps.finished().size() == expected.finished().size());
    for (std::size_t i = 0; i < steps.finished().size(); ++i) {
        CHECK(steps.finished()[i].state.step == static_cast<std::int64_t>(i) + 1);
        CHECK(steps.finished()[i].state.skip == Skip::none);
        CHECK(steps.finished()[i].state.loss_sum == expected.finished()[i].state.loss_sum);
        CHECK(steps.finished()[i].samples == expected.finished()[i].samples);
    }
    CHECK(steps.weights() == expected.weights());
    CHECK(steps.state().updates == expected.state().updates);
    CHECK(steps.state().skipped_steps == 0);
}

TEST_CASE("a repeated step, and the one issued after it, are as if nothing had happened") {
    Steps plain(ExpertSlices(4));
    Steps repeated(ExpertSlices(4));
    repeated.wait();
    const bool read_late = GENERATE(false, true);
    CAPTURE(read_late);
    for (std::int64_t step = 1; step <= 3; ++step) {
        plain.issue(step);
        repeated.issue(step);
        if (!read_late) repeated.finish();
    }
    plain.finish();
    repeated.finish();
    check_same_steps(repeated, plain);
    for (const FinishedStep& finished : repeated.finished()) {
        CHECK(finished.expert_slices.now() == 2);
        CHECK(finished.expert_slices.repeats() == 1);
    }
    CHECK(plain.finished().back().expert_slices.now() == 1);
    CHECK(plain.finished().back().expert_slices.repeats() == 0);
}

TEST_CASE("slices do not depend on when the host reads") {
    // Without the repeat the second step would have fewer slices.
    const ExpertSlices before = saved_slices(8, 2, ExpertSlices::patience - 1);
    Steps late(before);
    Steps early(before);
    for (Steps* steps : {&late, &early}) {
        const bool waits = steps == &early;
        steps->wait();
        for (std::int64_t step = 1; step <= 2; ++step) {
            steps->issue(step);
            if (waits) steps->finish();
        }
        steps->finish();
        REQUIRE(steps->finished().size() == 2);
        CHECK(steps->finished()[0].expert_slices.now() == 4);
        CHECK(steps->finished()[1].expert_slices.now() == 4);
    }
    CHECK(late.finished()[0].expert_slices == early.finished()[0].expert_slices);
    CHECK(late.finished()[1].expert_slices == early.finished()[1].expert_slices);

    Steps falling(before);
    falling.issue(1);
    falling.issue(2);
    falling.finish();
    CHECK(falling.finished()[0].expert_slices.now() == 2);
    CHECK(falling.finished()[1].expert_slices.now() == 1);
}

TEST_CASE("a step that would need more than the most slices is a fault of the program") {
    Steps steps(saved_slices(3, 3, 0));
    steps.wait();
    steps.issue(1);
    try {
        steps.finish();
        FAIL("no error");
    } catch (const Error& error) {
        CHECK(error.code() == ExitCode::bug);
        CHECK(std::string(error.what()).find("step 1: ") == 0);
        CHECK(std::string(error.what()).find("3 slices") != std::string::npos);
    }
}

}  // namespace
}  // namespace gptrain::test
