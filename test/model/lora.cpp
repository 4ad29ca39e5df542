// LoRA.
#include <cmath>

#include "adapter_values.h"
#include "catch.h"
#include "spec/make_plan.h"
#include "spec/model_cost.h"

using namespace gptrain;
using namespace gptrain::test;

namespace {

RunSpec variant(int index) {
    switch (index) {
        case 0: return tiny_spec();
        case 1: return tiny_llama_spec();
        case 2: return tiny_qwen_spec();
        default: return tiny_neox_spec();
    }
}

/// B is no longer 0.
void give_weights(TinyRun& run) {
    NamedValues weights = run.state("weight");
    std::uint64_t state = 1;
    for (auto& [name, values] : weights) {
        if (!name.ends_with(lora_b_suffix)) continue;
        for (float& value : values) {
            state = state * 6364136223846793005 + 1442695040888963407;
            value = static_cast<float>(static_cast<double>(state >> 40) * 0x1p-24 - 0.5) * 0.2F;
        }
    }
    run.set_weights(weights);
}

}  // namespace

TEST_CASE("LoRA starts as the model that it adapts", "[model][lora]") {
    const RunSpec spec = variant(GENERATE(0, 1, 2, 3));
    TinyRun plain(spec);
    TinyRun adapted(with_lora(spec));
    CHECK(adapted_values(adapted) == plain.state("weight"));
    const StepBatch batch = random_batch(plain.plan(), 1);
    const WeightedSum expected = plain.engine().evaluate(batch).loss;
    const WeightedSum actual = adapted.engine().evaluate(batch).loss;
    CHECK(actual.sum == expected.sum);
    const std::int64_t parameters =
        parameter_count(adapted.plan().model) - parameter_count(plain.plan().model);
    CHECK(parameters == parameter_count(adapted.plan().model) - frozen_parameters(adapted.plan()));
    CHECK(parameters == elements_of(adapted.gradients()));
}

TEST_CASE("LoRA's gradients are the same in every recompute mode and schedule", "[model][lora]") {
    RunSpec spec = with_lora(variant(GENERATE(0, 1, 2, 3)), GENERATE(true, false));
    spec.precision.compute = GENERATE(Precision::fp32, Precision::bf16, Precision::fp8);
    if (spec.precision.compute == Precision::fp8) spec.model.ffn_hidden_size = 64;
    spec.model.dropout = 0.1;
    check_modes(spec, give_weights);
}

TEST_CASE("LoRA's gradients, with dropout, are those of the loss", "[model][lora]") {
    RunSpec spec = with_lora(variant(GENERATE(0, 1)));
    spec.optimizer.lr = 0;
    spec.optimizer.clip_grad = 0;
    TinyRun run(spec);
    give_weights(run);
    const NamedValues weights = run.state("weight");
    const StepBatch batch = random_batch(run.plan(), 1);
    run.step(batch);
    const NamedValues gradients = run.gradients();
    // Every step on this batch draws the masks of step 1.
    const auto loss_at = [&](double distance) {
        NamedValues moved = weights;
        for (const auto& [name, gradient] : gradients) {
            for (std::size_t i = 0; i < gradient.size(); ++i)
                moved[name][i] += static_cast<float>(distance * gradient[i]);
        }
        run.set_weights(moved);
        return run.step(batch);
    };
    double square = 0;
    for (const auto& [name, gradient] : gradients)
        square += std::pow(norm(gradient), 2);
    // Central differences, extrapolated (Richardson).
    const auto difference = [&](double step) {
        return (loss_at(step) - loss_at(-step)) / (2 * step);
    };
    const double step = 4e-3 / std::sqrt(square);
    const double slope = (4 * difference(step / 2) - difference(step)) / 3;
    CHECK(slope == Approx(square).epsilon(1e-3));
}

TEST_CASE("the adapted model keeps its values and takes no more memory than these",
          "[model][lora]") {
    RunSpec spec = variant(GENERATE(0, 2));
    spec.precision.compute = GENERATE(Precision::fp32, Precision::bf16);
    TinyRun run(with_lora(spec));
    const NamedValues before = adapted_values(run);
    for (int step = 1; step <= 100; ++step)
        run.step(random_batch(run.plan(), step));
    CHECK(adapted_values(run) == before);
    run.engine().evaluate(random_batch(run.plan(), 1));
    CHECK(run.engine().memory().peaks() == run.memory_plan());
    const NamedValues gradients = run.gradients();
    const std::int64_t trained = elements_of(gradients);
    const std::int64_t gaps = 2 * Arena::alignment * static_cast<std::int64_t>(gradients.size());
    CHECK(run.memory_plan()[MemoryUse::main_grads] <= 4 * trained + gaps);
    CHECK(run.memory_plan()[MemoryUse::optimizer] <= 8 * trained + gaps);
}
