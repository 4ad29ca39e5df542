// The meter runs the same code, so its prediction is what a run allocates.
#include "catch.h"
#include "spec/make_plan.h"
#include "spec/model_cost.h"
#include "tiny_run.h"

using namespace gptrain;
using namespace gptrain::test;

namespace {

const BackendMemory no_scratch = {.scratch = [](const OpLimits&) { return std::int64_t{0}; }};

}  // namespace

TEST_CASE("a run takes exactly the memory that was predicted", "[model][memory]") {
    RunSpec spec = GENERATE(tiny_spec(), tiny_llama_spec(), tiny_shared_experts_spec(),
                            tiny_olmo_spec(), tiny_gemma_spec(), tiny_falcon_spec());
    spec.precision.compute = GENERATE(Precision::fp32, Precision::bf16);
    spec.recompute = GENERATE(Recompute::none, Recompute::selective, Recompute::full);
    spec.parallel.schedule =
        GENERATE(ScheduleKind::one_f_one_b, ScheduleKind::gpipe, ScheduleKind::zero_bubble);
    spec.model.dropout = GENERATE(0.0, 0.1);
    TinyRun run(spec);
    run.step(random_batch(run.plan(), 1));
    run.engine().evaluate(random_batch(run.plan(), 1));
    CHECK(run.engine().memory().peaks() == run.memory_plan());
}

TEST_CASE("a run with offload takes exactly the memory that was predicted", "[model][memory]") {
    RunSpec spec = GENERATE(tiny_spec(), tiny_shared_experts_spec(), tiny_falcon_spec());
    spec.optimizer.name = GENERATE("adamw", "muon");
    spec.precision.compute = GENERATE(Precision::fp32, Precision::bf16);
    spec.recompute = Recompute::full;
    spec.offload = {
        .optimizer = true, .main_weights = true, .activations = OffloadedActivations::blocks};
    TinyRun run(spec);
    run.step(random_batch(run.plan(), 1));
    run.engine().evaluate(random_batch(run.plan(), 1));
    CHECK(run.engine().memory().peaks() == run.memory_plan());
}

TEST_CASE("what waits in host memory takes none of the device's", "[model][memory]") {
    RunSpec spec = tiny_spec();
    spec.precision.compute = Precision::bf16;
    spec.recompute = Recompute::full;
    const auto measure = [&](std::int64_t layers) {
        spec.model.num_layers = layers;
        return measure_run(make_plan(spec, {}), {}, no_scratch).memory;
    };
    const MemoryPlan resident = measure(8);
    spec.offload = {
        .optimizer = true, .main_weights = true, .activations = OffloadedActivations::blocks};
    const MemoryPlan offloaded = measure(8);
    CHECK(offloaded[MemoryUse::optimizer] == 0);
    CHECK(offloaded[MemoryUse::host_optimizer] == resident[MemoryUse::optimizer]);
    CHECK(offloaded[MemoryUse::main_params] == 0);
    CHECK(offloaded[MemoryUse::host_main_params] == resident[MemoryUse::main_params]);
    // Two windows, however many layers there are.
    const std::int64_t stream =
        2 * spec.training.micro_batch_size * spec.training.seq_length * spec.model.hidden_size;
    CHECK(offloaded[MemoryUse::host_saved] == 8 * stream);
    CHECK(resident[MemoryUse::saved] - offloaded[MemoryUse::saved] == (8 - 2) * stream);
    CHECK(measure(4)[MemoryUse::saved] == offloaded[MemoryUse::saved]);
}

TEST_CASE("recomputation and sharding save what they should", "[model][memory]") {
    RunSpec spec = tiny_spec();
    const auto measure = [&](std::int64_t ranks) {
        const RunPlan plan = make_plan(spec, {.world_size = ranks, .dry_run = true});
        return measure_run(plan, {}, no_scratch);
    };
    spec.training.global_batch_size = 16;
    spec.recompute = Recompute::none;
    const StepCost none = measure(1);
    spec.recompute = Recompute::selective;
    const StepCost selective = measure(1);
    spec.recompute = Recompute::full;
    const StepCost full = measure(1);
    CHECK(selective.memory[MemoryUse::saved] < none.memory[MemoryUse::saved]);
    CHECK(full.memory[MemoryUse::saved] < selective.memory[MemoryUse::saved]);
    CHECK(full.forward_and_backward.gemms > none.forward_and_backward.gemms);
    CHECK(selective.forward_and_backward.gemms == none.forward_and_backward.gemms);

    const StepCost sharded = measure(8);
    const double share = static_cast<double>(sharded.memory[MemoryUse::optimizer]) /
                         static_cast<double>(full.memory[MemoryUse::optimizer]);
    CHECK(share < 0.14);
    CHECK(sharded.microbatches * 8 == full.microbatches);
    // Gradients are scattered and weights gathered once: 2 (p - 1) / p of the fp32 buffers.
    const double parameters = static_cast<double>(parameter_count(make_plan(spec, {}).model));
    CHECK(static_cast<double>(sharded.sent(Axis::dp_cp)) ==
          Approx(2 * 4 * parameters * 7 / 8).epsilon(0.01));
}

TEST_CASE("the meter counts the products of the model", "[model][memory]") {
    RunSpec spec = tiny_spec();
    spec.recompute = Recompute::none;
    const RunPlan plan = make_plan(spec, {});
    const ModelShape& model = plan.model;
    const StepCost cost = measure_run(plan, {}, no_scratch);
    const double tokens = static_cast<double>(plan.batch.global_batch_size * plan.seq_length);
    const double weights = static_cast<double>(model.layers * 12 * model.hidden * model.hidden +
                                               model.vocab * model.hidden);
    CHECK(cost.forward_and_backward.gemms == Approx(6 * tokens * weights));
    // 14 products of head_dim for each visible pair: 2 x (2 forward + 5 backward).
    const double pairs = static_cast<double>(plan.seq_length * (plan.seq_length + 1) / 2);
    CHECK(cost.forward_and_backward.attention ==
          Approx(14.0 *
                 static_cast<double>(plan.batch.global_batch_size * model.layers * model.hidden) *
                 pairs));
}

namespace {

/// Bytes that a layer saves for a microbatch on one tp rank.
std::int64_t saved_by_a_layer(RunSpec spec, std::int64_t tensor) {
    const auto saved = [&](std::int64_t layers) {
        spec.model.num_layers = layers;
        const RunPlan plan = make_plan(spec, {.world_size = tensor});
        return measure_run(plan, {}, no_scratch).memory[MemoryUse::saved];
    };
    return saved(4) - saved(3);
}

// Sizes at which every tensor is a multiple of 256 bytes.
constexpr std::int64_t s = 256, b = 2, h = 64, a = 8;

RunSpec layer_spec() {
    RunSpec spec = tiny_spec();
    spec.model.hidden_size = h;
    spec.model.num_attention_heads = a;
    spec.training.seq_length = s;
    spec.training.micro_batch_size = b;
    spec.precision.compute = Precision::bf16;
    return spec;
}

}  // namespace

TEST_CASE("a layer keeps what docs/memory.md says, to the byte", "[model][memory]") {
    RunSpec spec = layer_spec();
    for (const std::int64_t t : {1, 2, 4}) {
        spec.parallel.tensor = t;
        spec.parallel.sequence_parallel = t > 1;
        CAPTURE(t);
        const std::int64_t unit = s * b * h / t;
        const std::int64_t small = (2 * 8 * s * b + 4 * a * b * s) / t;
        spec.recompute = Recompute::none;
        CHECK(saved_by_a_layer(spec, t) == 32 * unit + small);
        spec.recompute = Recompute::selective;
        CHECK(saved_by_a_layer(spec, t) == 20 * unit + small);
        // Korthikanti et al. 2022, equation 6: tensor and sequence parallel, selective.
        CHECK(saved_by_a_layer(spec, t) <= 34 * unit);
        spec.recompute = Recompute::full;
        CHECK(saved_by_a_layer(spec, t) == 2 * unit);

        spec.parallel.schedule = ScheduleKind::zero_bubble;
        CHECK(saved_by_a_layer(spec, t) == (2 + 2 * 2 + 6 + 8) * unit);
        spec.recompute = Recompute::selective;
        CHECK(saved_by_a_layer(spec, t) == 32 * unit + small);
        spec.recompute = Recompute::none;
        CHECK(saved_by_a_layer(spec, t) == 32 * unit + small);
        spec.parallel.schedule = ScheduleKind::one_f_one_b;
        spec.recompute = Recompute::selective;

        spec.parallel.sequence_parallel = false;
        const std::int64_t stream = 2 * 2 * s * b * h;
        const std::int64_t numbers = 2 * 8 * s * b + 4 * a * b * s / t;
        CHECK(saved_by_a_layer(spec, t) == stream + 16 * unit + numbers);
    }
}

TEST_CASE("an FP8 layer keeps the inputs of its GEMMs as FP8", "[model][memory]") {
    RunSpec spec = layer_spec();
    spec.precision.compute = Precision::fp8;
    for (const std::int64_t t : {1, 2}) {
        spec.parallel.tensor = t;
        spec.parallel.sequence_parallel = t > 1;
        CAPTURE(t);
        const std::int64_t unit = s * b * h / t;
        const std::int64_t numbers = (2 * 8 * s * b + 4 * a * b * s) / t;
        constexpr std::int64_t amaxes = 256, scale = 256;
        const std::int64_t small = numbers + amaxes;
        const std::int64_t inputs = t == 1 ? 27 * unit + 4 * scale : 29 * unit + 2 * scale;
        spec.recompute = Recompute::none;
        CHECK(saved_by_a_layer(spec, t) == inputs + small);
        // Deferred W reads them too.
        spec.parallel.schedule = ScheduleKind::zero_bubble;
        CHECK(saved_by_a_layer(spec, t) == inputs + small);
        spec.parallel.schedule = ScheduleKind::one_f_one_b;
        spec.recompute = Recompute::selective;
        CHECK(saved_by_a_layer(spec, t) == 20 * unit + small);
    }
}

TEST_CASE("zero-bubble takes the activation memory of 1F1B", "[model][memory]") {
    RunSpec spec = GENERATE(0, 1) == 0 ? tiny_spec() : tiny_llama_spec();
    spec.model.num_layers = 8;
    spec.training.global_batch_size = 16;
    spec.precision.compute = Precision::bf16;
    spec.parallel.pipeline = 4;
    spec.parallel.layers = {2, 2, 2, 2};
    const auto saved = [&](ScheduleKind kind, int stage) {
        spec.parallel.schedule = kind;
        const RunPlan plan = make_plan(spec, {.world_size = 4});
        return measure_run(plan, {.pp = stage}, no_scratch).memory[MemoryUse::saved];
    };
    spec.recompute = Recompute::none;
    const std::int64_t most = saved(ScheduleKind::one_f_one_b, 0);
    // Gpipe keeps what the head saves of each microbatch, and defers none of its gradients.
    spec.parallel.schedule = ScheduleKind::gpipe;
    const std::int64_t microbatches =
        make_plan(spec, {.world_size = 4}).microbatches(spec.training.global_batch_size.value());
    const std::int64_t heads = saved(ScheduleKind::gpipe, 3) - saved(ScheduleKind::gpipe, 0);
    const std::int64_t head = heads / microbatches;
    REQUIRE(head > 0);
    for (const int stage : {0, 1, 2})
        CHECK(saved(ScheduleKind::zero_bubble, stage) == most);
    CHECK(saved(ScheduleKind::zero_bubble, 3) == most + head);
    // Rebuilding what W reads would save nothing.
    spec.recompute = Recompute::selective;
    CHECK(saved(ScheduleKind::zero_bubble, 0) == most);
}

TEST_CASE("so does one with grouped queries, SwiGLU and RMSNorm", "[model][memory]") {
    constexpr std::int64_t g = 2, f = 192;
    RunSpec spec = layer_spec();
    spec.model.num_query_groups = g;
    spec.model.activation = Activation::swiglu;
    spec.model.ffn_hidden_size = f;
    spec.model.normalization = Normalization::rmsnorm;
    for (const std::int64_t t : {1, 2, 4}) {
        spec.parallel.tensor = t;
        spec.parallel.sequence_parallel = t > 1;
        CAPTURE(t);
        const std::int64_t small = (2 * 4 * s * b + 4 * a * b * s) / t;
        const std::int64_t q = 2 * s * b * h / t;
        const std::int64_t k_and_v = t > g ? 4 * s * b * h / a : 4 * s * b * h * g / a / t;
        // The residual stream twice, q, k, v and the attention output, both inputs of SwiGLU.
        const std::int64_t kept = 2 * q + (q + k_and_v) + q + 4 * s * b * f / t;
        spec.recompute = Recompute::selective;
        CHECK(saved_by_a_layer(spec, t) == kept + small);
        spec.recompute = Recompute::none;
        CHECK(saved_by_a_layer(spec, t) == kept + 2 * q + 2 * s * b * f / t + small);
        spec.recompute = Recompute::full;
        CHECK(saved_by_a_layer(spec, t) == q);
    }
}
