// The time of steps of the shipped large specs: messages hide behind computation.

#include <functional>

#include "catch.h"
#include "cuda/needs.h"
#include "engine/measure.h"
#include "hardware/load_profile.h"
#include "planner/mesh_cost.h"
#include "planner/step_time.h"
#include "shipped_plan.h"

namespace gptrain::test {
namespace {

/// Every stage of a shipped spec, recorded once.
class LargeStep {
public:
    LargeStep(const std::string& name, std::int64_t ranks) : LargeStep(shipped_plan(name, ranks)) {}
    explicit LargeStep(const RunPlan& plan)
        : plan_(plan),
          pipeline_{.mesh = plan_.mesh,
                    .chunks = plan_.virtual_stages,
                    .stages = trace_stages(plan_, cuda::backend_memory())} {}

    /// The same run with another plan.
    LargeStep changed(const std::function<void(RunPlan&)>& change) const {
        RunPlan plan = plan_;
        change(plan);
        return LargeStep(plan);
    }

    StepTime time(bool in_order = true, const std::string& profile = "a100-80gb") const {
        HardwareProfile hardware = load_profile(profile);
        hardware.software.in_order = in_order;
        return time_step(pipeline_, hardware);
    }

    /// The number of reductions of gradients in a step of the first stage.
    std::int64_t reductions() const {
        const StepTrace& trace = pipeline_.stages.front();
        std::int64_t count = 0;
        for (const StepTrace::Part& part : trace.parts) {
            for (const TraceEvent& event : trace.bodies[static_cast<std::size_t>(part.body)]) {
                if (event.kind != TraceEvent::Kind::message) continue;
                const auto& message = trace.messages[static_cast<std::size_t>(event.index)];
                if (message.operation == "reduce_scatter" && message.axis == Axis::dp_cp) ++count;
            }
        }
        return count;
    }

    const RunPlan& plan() const { return plan_; }

private:
    RunPlan plan_;
    PipelineTraces pipeline_;
};

/// A shipped spec on nodes of 8, with one sequence in a microbatch.
RunSpec with_stages(const std::string& name, std::int64_t stages, std::int64_t chunks) {
    RunSpec spec = shipped_spec(name);
    spec.parallel = {};
    spec.parallel.tensor = 8;
    spec.parallel.sequence_parallel = true;
    spec.parallel.pipeline = stages;
    spec.parallel.virtual_stages = chunks;
    if (chunks > 1) spec.parallel.schedule = ScheduleKind::interleaved_one_f_one_b;
    spec.training.micro_batch_size = 1;
    spec.recompute = Recompute::selective;
    return spec;
}

LargeStep step_of(const RunSpec& spec, std::int64_t ranks) {
    return LargeStep(make_plan(spec, {.world_size = ranks, .cuda = true, .dry_run = true}));
}

void check_hidden(const LargeStep& step, double most_exposed) {
    const StepTime time = step.time();
    CHECK(time[Spent::dp] <= most_exposed * time.seconds);
    // The order of issue delays nothing: the step is as fast as if messages did not wait for each
    // other.
    CHECK(time.seconds <= 1.01 * step.time(false).seconds);
}

}  // namespace

TEST_CASE("gpt175b hides its data-parallel messages on 1,024 GPUs") {
    const LargeStep step("gpt175b", 1024);
    check_hidden(step, 0.03);
    // One for each chunk, and one for the embedding, which is tied to the last stage's.
    CHECK(step.reductions() == step.plan().virtual_stages + 1);
}

// Eight blocks of Llama 3 8B's shape on one GPU.
TEST_CASE("copies of activations hide, and those of state take the link's time") {
    RunSpec spec = shipped_spec("gpt16b");
    spec.model.num_layers = 8;
    spec.model.hidden_size = 4096;
    spec.model.num_attention_heads = 32;
    spec.model.ffn_hidden_size = 16384;
    spec.parallel = {};
    spec.training.micro_batch_size = 1;
    spec.training.global_batch_size = 4;
    spec.recompute = Recompute::full;
    const auto seconds = [&] { return step_of(spec, 1).time(true, "h100-sxm"); };
    const StepTime resident = seconds();
    CHECK(resident[Spent::offload] == 0);
    spec.offload.activations = OffloadedActivations::blocks;
    const StepTime activations = seconds();
    CHECK(activations.seconds < 1.01 * resident.seconds);
    spec.offload = {.optimizer = true, .main_weights = true};
    const RunPlan plan = make_plan(spec, for_dry_run(1));
    const MemoryPlan memory = lasting_memory(plan, {}, cuda::backend_memory());
    const auto bytes = static_cast<double>(memory[MemoryUse::host_optimizer] +
                                           memory[MemoryUse::host_main_params]);
    const double link = bytes / load_profile("h100-sxm").device.copy_bandwidth;
    const StepTime state = seconds();
    // The first part comes before any update, and the last one leaves after all.
    CHECK(state[Spent::offload] > 0.9 * link);
    CHECK(state[Spent::offload] < 1.1 * link);
    CHECK(state.seconds == Approx(resident.seconds + state[Spent::offload]).epsilon(0.01));
}

// The fewer chunks a stage has, the longer the last stage waits at the end of a step.
TEST_CASE("deferred weight gradients of the head make steps shorter") {
    struct Case {
        std::string name;
        std::int64_t ranks, stages, chunks;
        double least;  ///< that they save
    };
    const Case c = GENERATE(Case{"gpt175b", 1024, 8, 3, 0.005}, Case{"gpt530b", 2240, 35, 3, 0.01},
                            Case{"gpt1t", 3072, 64, 1, 0.015});
    CAPTURE(c.name);
    const LargeStep step = step_of(with_stages(c.name, c.stages, c.chunks), c.ranks);
    const double before =
        step.changed([](RunPlan& plan) { plan.deferred_heads = 0; }).time().seconds;
    CHECK(step.time().seconds <= (1 - c.least) * before);
}

// On A100s messages are a smaller share of the step, and on B200s GEMMs lose more when they are
// cut.
TEST_CASE("linear layers in pieces make steps shorter") {
    const auto [profile, least] = GENERATE(
        table<std::string, double>({{"a100-80gb", 0.004}, {"h100-sxm", 0.02}, {"b200", 0.004}}));
    CAPTURE(profile);
    const LargeStep whole = step_of(with_stages("gpt175b", 8, 3), 1024);
    const LargeStep cut = whole.changed([](RunPlan& plan) { plan.tensor_pieces = 2; });
    const StepTime before = whole.time(true, profile);
    const StepTime after = cut.time(true, profile);
    CHECK(after.seconds <= (1 - least) * before.seconds);
    CHECK(after[Spent::tp] <= 0.8 * before[Spent::tp]);
}

// Before it did, 1.6 % of the step of a ring were exposed, and 5.0 % with exchanged heads.
TEST_CASE("attention over shared sequences hides its messages") {
    const auto [method, most] = GENERATE(table<ContextMethod, double>(
        {{ContextMethod::ring, 0.001}, {ContextMethod::all_to_all, 0.035}}));
    CAPTURE(name_of(method));
    RunSpec spec = with_stages("gpt22b", 1, 1);
    spec.training.seq_length = 16384;
    spec.training.global_batch_size = 8;
    spec.parallel.tensor = 1;
    spec.parallel.sequence_parallel = false;
    spec.parallel.context = 8;
    spec.parallel.context_method = method;
    const StepTime time = step_of(spec, 8).time(true, "h100-sxm");
    CHECK(time[Spent::cp] <= most * time.seconds);
}

TEST_CASE("gpt530b hides its data-parallel messages on 2,240 GPUs") {
    check_hidden(LargeStep("gpt530b", 2240), 0.03);
}

TEST_CASE("gpt1t hides its data-parallel messages on 3,072 GPUs") {
    check_hidden(LargeStep("gpt1t", 3072), 0.02);
}

}  // namespace gptrain::test
