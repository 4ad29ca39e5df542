// The record of a run that a checkpoint holds besides its tensors.
#include "stored/saved_run.h"

#include <cstddef>
#include <cstring>

#include "catch.h"

namespace gptrain {
namespace {

/// A number of the step state that is carried over from step to step.
struct Carried {
    std::size_t offset;
    bool whole;
};
constexpr Carried carried[] = {{offsetof(StepState, loss_scale), false},
                               {offsetof(StepState, clean_steps), true},
                               {offsetof(StepState, updates), true},
                               {offsetof(StepState, skipped_steps), true},
                               {offsetof(StepState, skipped_in_a_row), true}};

/// All carried numbers differ from each other and from those of a new run.
SavedRun run_under_way() {
    SavedRun run{};
    std::int64_t number = 3;
    for (const Carried& field : carried) {
        auto* at = reinterpret_cast<std::byte*>(&run.state) + field.offset;
        const double real = static_cast<double>(number) + 0.5;
        if (field.whole)
            std::memcpy(at, &number, sizeof number);
        else
            std::memcpy(at, &real, sizeof real);
        number += 10;
    }
    run.spec_yaml = "name: tiny\n";
    run.goodput = {.useful = 1, .init = 2, .load = 3, .save = 4, .eval = 5, .lost = 6};
    for (const int step : {4, 5, 7})
        run.losses.push_back({{"step", step}, {"loss", 1.0 / step}});
    run.interval_loss = {{"loss", 1.0 / 3}, {"weight", 96.0}, {"interval", 10}};
    run.expert_slices = {{"slices", 4}, {"since", 17}, {"repeats", 3}};
    run.peer_axes = {{Axis::tp, Axis::dp_cp}};
    return run;
}

SavedRun written_and_read(const SavedRun& run) {
    CheckpointMeta meta;
    meta.step = 7;
    meta.state = parse_json(to_json(run).dump(), "test");
    return saved_run(meta);
}

TEST_CASE("every carried number of the step state is in the list") {
    // The carried numbers are adjacent in the struct; a new one must be added to the list. `waits`,
    // the last of them, is 0 in every checkpoint: a run saves no step that has to be repeated.
    constexpr std::size_t begin = offsetof(StepState, loss_scale);
    constexpr std::size_t end = offsetof(StepState, waits);
    STATIC_REQUIRE(end + sizeof(StepState::waits) == offsetof(StepState, grad_square_sum));
    STATIC_REQUIRE(std::size(carried) * 8 == end - begin);
}

TEST_CASE("all that a checkpoint keeps of a run reads back") {
    const SavedRun run = run_under_way();
    const SavedRun read = written_and_read(run);
    CHECK(std::memcmp(&read.state, &run.state, sizeof(StepState)) == 0);
    CHECK(read.spec_yaml == run.spec_yaml);
    CHECK(read.goodput == run.goodput);
    CHECK(read.interval_loss == run.interval_loss);
    CHECK(read.expert_slices == run.expert_slices);
    CHECK(read.losses == run.losses);
    CHECK(read.losses.size() == 3);
    CHECK(read.peer_axes == run.peer_axes);
}

TEST_CASE("axes that messages are copied on may be none, and must be known") {
    SavedRun run = run_under_way();
    run.peer_axes = PeerAxes{};
    CHECK(written_and_read(run).peer_axes == PeerAxes{});
    CheckpointMeta meta;
    meta.state = to_json(run);
    meta.state["peer_axes"] = {"tp", "sideways"};
    try {
        saved_run(meta);
        FAIL("no error");
    } catch (const Error& error) {
        CHECK(error.code() == ExitCode::bad_input);
        CHECK(std::string(error.what()).find("sideways") != std::string::npos);
    }
}

TEST_CASE("the state of an older checkpoint reads") {
    CheckpointMeta meta;
    meta.state = to_json(run_under_way());
    meta.state.erase("interval_loss");
    meta.state.erase("expert_slices");
    meta.state.erase("peer_axes");
    meta.state["first_start"] = 7.5;
    CHECK(saved_run(meta).interval_loss.is_null());
    CHECK(saved_run(meta).expert_slices.is_null());
    CHECK(!saved_run(meta).peer_axes);
}

TEST_CASE("a checkpoint without one of its numbers is refused by name") {
    Json whole = to_json(run_under_way());
    whole.erase("interval_loss");  // older checkpoints have none
    whole.erase("expert_slices");  // nor have most newer ones
    whole.erase("peer_axes");
    for (const auto& [key, value] : whole.items()) {
        CheckpointMeta meta;
        meta.state = whole;
        meta.state.erase(key);
        try {
            saved_run(meta);
            FAIL("no error without " << key);
        } catch (const Error& error) {
            CHECK(error.code() == ExitCode::bad_input);
            CHECK(std::string(error.what()).find(key) != std::string::npos);
        }
    }
}

}  // namespace
}  // namespace gptrain
