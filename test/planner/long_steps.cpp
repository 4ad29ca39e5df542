// Steps with more microbatches than are executed and simulated: their cost follows from shorter
// ones.
#include <algorithm>
#include <cmath>

#include "catch.h"
#include "engine/long_step.h"
#include "hardware/load_profile.h"
#include "planner/flop_costs.h"
#include "planner/long_times.h"
#include "planner/mesh_cost.h"
#include "planner/traced_step.h"
#include "schedule/stage_plan.h"
#include "spec/make_plan.h"

namespace gptrain::test {
namespace {

struct Pipe {
    ScheduleKind schedule;
    std::int64_t stages;
    std::int64_t chunks = 1;
};

/// On the last of three data ranks there may be a microbatch less than on the first.
RunPlan plan_of(const Pipe& pipe, std::int64_t sequences, std::int64_t data = 1) {
    RunSpec spec;
    spec.name = "long";
    spec.model.num_layers = pipe.stages * pipe.chunks;
    spec.model.hidden_size = 64;
    spec.model.num_attention_heads = 2;
    spec.model.vocab_size = 512;
    spec.data.train = {{"none", 1.0}};
    spec.training.seq_length = 32;
    spec.training.global_batch_size = sequences;
    spec.training.steps = 1;
    spec.parallel.schedule = pipe.schedule;
    spec.parallel.pipeline = pipe.stages;
    spec.parallel.virtual_stages = pipe.chunks;
    return make_plan(spec, {.world_size = data * pipe.stages, .cuda = true, .dry_run = true});
}

const BackendMemory needs = {.scratch = [](const OpLimits&) { return std::int64_t{4096}; }};

bool is_near(double value, double expected) {
    return std::abs(value - expected) <= 1e-8 * std::abs(expected);
}

void check_same(const StepCost& cost, const StepCost& expected) {
    CHECK(cost.memory == expected.memory);
    CHECK(cost.linear_ops == expected.linear_ops);
    CHECK(cost.microbatches == expected.microbatches);
    CHECK(cost.forward_and_backward.gemms == expected.forward_and_backward.gemms);
    CHECK(cost.forward_and_backward.attention == expected.forward_and_backward.attention);
    CHECK(cost.forward_and_backward.updates == expected.forward_and_backward.updates);
    for (std::size_t axis = 0; axis < cost.comm.size(); ++axis)
        CHECK(cost.comm[axis].bytes == expected.comm[axis].bytes);
}

Pipe any_pipe() {
    return GENERATE(Pipe{ScheduleKind::one_f_one_b, 1}, Pipe{ScheduleKind::gpipe, 3},
                    Pipe{ScheduleKind::one_f_one_b, 4},
                    Pipe{ScheduleKind::interleaved_one_f_one_b, 3, 2},
                    Pipe{ScheduleKind::zero_bubble, 3}, Pipe{ScheduleKind::zero_bubble, 3, 2});
}

}  // namespace

TEST_CASE("the memory, work and messages of a long step are those of all its microbatches") {
    const Pipe pipe = any_pipe();
    const std::int64_t sequences = GENERATE(3 * 2001 - 1, 3 * 2044 - 2);
    CAPTURE(name_of(pipe.schedule), pipe.stages, pipe.chunks, sequences);
    const RunPlan plan = plan_of(pipe, sequences, 3);
    REQUIRE(shortened(plan));
    BackendMemory on_host = needs;
    on_host.messages_on_host = true;
    const MeshPlace last = {.dp = 2, .pp = static_cast<int>(pipe.stages) - 1};
    for (const MeshPlace& place : {MeshPlace{}, last}) {
        const StepCost expected = execute_run(plan, place, needs);
        check_same(measure_run(plan, place, needs), expected);
        CHECK(measure_memory(plan, place, needs) == expected.memory);
    }
    check_same(measure_run(plan, {}, on_host), execute_run(plan, {}, on_host));
}

TEST_CASE("the time of a long step is that of all its microbatches") {
    const Pipe pipe = any_pipe();
    const std::int64_t sequences = GENERATE(2001, 2047);
    CAPTURE(name_of(pipe.schedule), pipe.stages, pipe.chunks, sequences);
    const RunPlan plan = plan_of(pipe, sequences);
    HardwareProfile hardware = load_profile("h100-sxm");
    hardware.node.devices = 2;  // some messages between stages go over the network
    const StepTime expected = time_step({.mesh = plan.mesh,
                                         .chunks = plan.virtual_stages,
                                         .only_rings = plan.deterministic,
                                         .stages = trace_stages(plan, needs)},
                                        hardware);
    const StepTime time = TracedStep(plan, needs).time(hardware);
    CHECK(is_near(time.seconds, expected.seconds));
    for (int i = 0; i < spent_kinds; ++i) {
        const auto spent = static_cast<Spent>(i);
        CAPTURE(name_of(spent));
        CHECK(std::abs(time[spent] - expected[spent]) <= 1e-8 * expected.seconds);
    }
    CHECK(is_near(flop_bubble(plan), bubble(flop_timeline(plan))));
}

TEST_CASE("a step that does not repeat itself yet is simulated for longer") {
    // The second stage begins late but is the faster one: it waits for nothing at first.
    const PipelineShape shape = {
        .kind = ScheduleKind::one_f_one_b, .stages = 2, .microbatches = 500};
    std::vector<std::int64_t> asked;
    const auto simulated = [&](double late) {
        return [&, late](std::int64_t microbatches) {
            asked.push_back(microbatches);
            SimulatedStep step;
            const auto end = [&](std::int64_t stage, double time) {
                step.tracks[{.stage = stage}].push_back(time);
            };
            for (std::int64_t i = 0; i < microbatches; ++i) {
                const auto count = static_cast<double>(i + 1);
                const double first = 10 * count;
                const double second = std::max(first, late + 9 * count);
                end(0, first);
                end(1, second);
                step.times = {second};
            }
            return step;
        };
    };
    PipelineShape long_shape = shape;
    long_shape.microbatches = 1'000'000;
    CHECK(times_of_step(long_shape, 80, simulated(30)) == std::vector<double>{1e7});
    CHECK(*std::max_element(asked.begin(), asked.end()) < 100);
    asked.clear();
    CHECK(times_of_step(long_shape, 80, simulated(1000)) == std::vector<double>{1e7});
    CHECK(*std::max_element(asked.begin(), asked.end()) > 1000);
}

// It may be far ahead of the device, but will not stay there.
TEST_CASE("a step does not repeat itself if its host is slower than its actions") {
    const auto tracks = [](std::int64_t microbatches, double host) {
        Tracks all;
        for (std::int64_t i = 0; i < microbatches; ++i) {
            all[{}].push_back(1000 + 10.0 * static_cast<double>(i));
            all[{.clock = TrackKey::Clock::host}].push_back(host * static_cast<double>(i));
        }
        return all;
    };
    const PipelineShape shape = {.microbatches = 64};
    for (const double host : {0.0, 9.0, 10.0})
        CHECK(repeats(tracks(64, host), tracks(65, host), shape, 1));
    CHECK_FALSE(repeats(tracks(64, 10.5), tracks(65, 10.5), shape, 1));
}

}  // namespace gptrain::test
