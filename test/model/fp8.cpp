// A model whose inner blocks compute in FP8.
#include <cmath>
#include <limits>

#include "catch.h"
#include "meter/meter_backend.h"
#include "model/parameters.h"
#include "schedule/stage_plan.h"
#include "spec/make_plan.h"
#include "tiny_run.h"

using namespace gptrain;
using namespace gptrain::test;

namespace {

RunSpec spec_in(Precision precision, bool llama) {
    RunSpec spec = llama ? tiny_llama_spec() : tiny_spec();
    if (llama) spec.model.ffn_hidden_size = 64;
    spec.precision.compute = precision;
    return spec;
}

/// With weight gradients in FP8 too.
RunSpec all_in_blocks(RunSpec spec) {
    spec = in_blocks(std::move(spec));
    spec.precision.fp8_weight_gradients = Precision::fp8;
    return spec;
}

/// The same, or a block with norms behind its halves, or with parallel halves, and weight gradients
/// in bf16; then with scales for blocks and heads as wide as those, with adapters, and with weight
/// gradients in FP8.
RunSpec block_in_fp8(int index) {
    if (index < 2) {
        RunSpec spec = spec_in(Precision::fp8, index == 1);
        // With large weights the gradients of q and k are larger than that of v.
        spec.model.init_std = 0.5;
        return spec;
    }
    if (index == 4) return with_wide_heads(in_blocks(tiny_spec()));
    if (index == 5) return with_lora(in_blocks(tiny_llama_spec()));
    if (index == 6) return all_in_blocks(tiny_spec());
    RunSpec spec = index == 2 ? tiny_olmo_spec() : tiny_falcon_spec();
    spec.model.ffn_hidden_size = 64;
    spec.model.dropout = 0.1;
    spec.precision.compute = Precision::fp8;
    if (index == 3) spec.precision.fp8_weight_gradients = Precision::bf16;
    return spec;
}

struct Result {
    std::vector<double> losses;
    NamedValues gradients;
    NamedValues weights;
    bool operator==(const Result&) const = default;
};

Result train_steps(const RunSpec& spec, int steps) {
    TinyRun run(spec);
    Result result;
    for (int step = 1; step <= steps; ++step)
        result.losses.push_back(run.step(random_batch(run.plan(), step)));
    result.gradients = run.gradients();
    result.weights = run.state("weight");
    return result;
}

double product(const std::vector<float>& a, const std::vector<float>& b) {
    double sum = 0;
    for (std::size_t i = 0; i < a.size(); ++i)
        sum += double{a[i]} * double{b[i]};
    return sum;
}

double length_of(const std::vector<float>& a) {
    return std::sqrt(product(a, a));
}

double cosine(const std::vector<float>& a, const std::vector<float>& b) {
    return product(a, b) / (length_of(a) * length_of(b));
}

/// A model's weights in separate memory.
struct Weights {
    Weights(Backend& backend, const RunPlan& plan, const std::optional<MemoryPlan>& needed)
        : memory(backend, needed),
          parameters(memory,
                     make_layout({.model = plan.model,
                                  .chunks = chunk_parts(plan, 0),
                                  .fp8 = true,
                                  .fp8_blocks = plan.fp8_blocks}),
                     DType::bf16, Parameters::Use::inference) {}
    Memory memory;
    Parameters parameters;
};

}  // namespace

TEST_CASE("the scales of FP8 weights are aligned to 16 bytes, as cuBLASLt wants them", "[model]") {
    const RunPlan plan = make_plan(block_in_fp8(GENERATE(0, 1, 4)), {});
    MeterBackend meter({});
    const auto backend = tested_backend();
    const Weights weights(*backend, plan, Weights(meter, plan, {}).memory.peaks());
    int scales = 0;
    for (const ParameterGroup& group : weights.parameters.layout().groups) {
        if (!group.storage.fp8) continue;
        const Fp8Matrix weight = weights.parameters.group(group.name).weight8;
        CHECK(reinterpret_cast<std::uintptr_t>(weight.scale.data()) % 16 == 0);
        CHECK(weight.in_blocks() == plan.fp8_blocks);
        if (weight.in_blocks())
            CHECK(reinterpret_cast<std::uintptr_t>(weight.column_scale.data()) % 16 == 0);
        ++scales;
    }
    CHECK(scales >= 4);
}

TEST_CASE("neither recomputation nor schedule changes a bit in FP8", "[model]") {
    const int index = GENERATE(range(0, 7));
    RunSpec spec = block_in_fp8(index);
    spec.recompute = Recompute::none;
    // On a device, which may be emulated, one update, and one recomputation for each model: which
    // ops run does not depend on it.
    const int steps = tested_backend()->is_host() ? 3 : 2;
    const Result base = train_steps(spec, steps);
    REQUIRE(std::isfinite(base.losses.back()));
    const auto on_device = index % 2 == 0 ? Recompute::selective : Recompute::full;
    for (const Recompute recompute : {Recompute::selective, Recompute::full}) {
        spec.recompute = recompute;
        if (tested_backend()->is_host() || recompute == on_device)
            CHECK(train_steps(spec, steps) == base);
    }
    spec.parallel.schedule = ScheduleKind::zero_bubble;
    const Result other = train_steps(spec, steps);
    // cuBLASLt, or a conversion, sums a bias gradient in another order than W does.
    if (tested_backend()->is_host()) CHECK(other == base);
    CHECK(other.losses.back() == Approx(base.losses.back()).epsilon(1e-3));
}

TEST_CASE("an FP8 run takes exactly the predicted memory", "[model][memory]") {
    RunSpec spec = block_in_fp8(GENERATE(range(0, 7)));
    spec.recompute = GENERATE(Recompute::none, Recompute::selective, Recompute::full);
    spec.parallel.schedule = GENERATE(ScheduleKind::one_f_one_b, ScheduleKind::zero_bubble);
    // Devices differ in the memory of ops, and not in what is kept when: two of six are enough.
    const bool deferred = spec.parallel.schedule == ScheduleKind::zero_bubble;
    const auto on_device = deferred ? Recompute::full : Recompute::none;
    if (!tested_backend()->is_host() && spec.recompute != on_device) return;
    TinyRun run(spec);
    run.step(random_batch(run.plan(), 1));
    run.engine().evaluate(random_batch(run.plan(), 1));
    CHECK(run.engine().memory().peaks() == run.memory_plan());
}

TEST_CASE("FP8 gradients have the directions and lengths of bf16 gradients", "[model]") {
    const bool llama = GENERATE(false, true);
    const Result in_bf16 = train_steps(spec_in(Precision::bf16, llama), 1);
    const Result in_fp8 = train_steps(spec_in(Precision::fp8, llama), 1);
    // Rounding to 4 and 3 binary digits moves a long sum of products by a few percent of its
    // standard deviation.
    CHECK(in_fp8.losses[0] != in_bf16.losses[0]);
    CHECK(in_fp8.losses[0] == Approx(in_bf16.losses[0]).epsilon(0.01));
    for (const auto& [name, gradient] : in_bf16.gradients) {
        CAPTURE(name);
        // The gradient of a key's bias is zero except for rounding.
        if (name.ends_with("attn.k.bias")) continue;
        CHECK(cosine(gradient, in_fp8.gradients.at(name)) > 0.98);
        CHECK(length_of(in_fp8.gradients.at(name)) == Approx(length_of(gradient)).epsilon(0.1));
    }
}

TEST_CASE("with scales for blocks gradients are nearer to those of bf16", "[model]") {
    RunSpec spec = in_blocks(GENERATE(false, true) ? tiny_llama_spec() : tiny_spec());
    const Result blocks = train_steps(spec, 1);
    const Result all_blocks = train_steps(all_in_blocks(spec), 1);
    spec.precision.fp8_recipe = Fp8Recipe::tensor;
    const Result one_scale = train_steps(spec, 1);
    spec.precision.compute = Precision::bf16;
    spec.precision.fp8_recipe.reset();
    const Result in_bf16 = train_steps(spec, 1);
    const auto distance = [&](const Result& result) {
        double squares = 0;
        for (const auto& [name, gradient] : in_bf16.gradients) {
            std::vector<float> difference = result.gradients.at(name);
            for (std::size_t i = 0; i < gradient.size(); ++i)
                difference[i] -= gradient[i];
            squares += product(difference, difference);
        }
        return std::sqrt(squares);
    };
    CHECK(distance(blocks) > 0);
    CHECK(distance(blocks) < 0.8 * distance(one_scale));
    CHECK(distance(blocks) < distance(all_blocks));
    CHECK(distance(all_blocks) < distance(one_scale));
}

TEST_CASE("a skipped step leaves FP8 weights as they are", "[model]") {
    const RunSpec spec = spec_in(Precision::fp8, false);
    TinyRun run(spec);
    run.step(random_batch(run.plan(), 1));
    const NamedValues before = run.state("weight");
    const double loss = run.engine().evaluate(random_batch(run.plan(), 3)).loss.mean();
    StepBatch broken = random_batch(run.plan(), 2);
    broken.microbatches[0].weights[0] = std::numeric_limits<float>::infinity();
    run.step(broken);
    REQUIRE(run.engine().read_state().skip == Skip::not_finite);
    CHECK(run.state("weight") == before);
    CHECK(run.engine().evaluate(random_batch(run.plan(), 3)).loss.mean() == loss);
}
