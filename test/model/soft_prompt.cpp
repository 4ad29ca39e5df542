// Prompt tuning and p-tuning.
#include <cmath>

#include "adapter_values.h"
#include "catch.h"
#include "spec/make_plan.h"
#include "spec/model_cost.h"

using namespace gptrain;
using namespace gptrain::test;

namespace {

RunSpec prompt_variant(int index) {
    const AdapterKind kind = GENERATE(AdapterKind::prompt, AdapterKind::p_tuning);
    switch (index) {
        case 0: return with_virtual_tokens(tiny_spec(), kind);
        case 1: return with_virtual_tokens(tiny_llama_spec(), kind);
        default: return with_virtual_tokens(tiny_qwen_spec(), kind);
    }
}

}  // namespace

TEST_CASE("only virtual tokens are trained", "[model][prompt]") {
    const RunSpec spec = prompt_variant(GENERATE(0, 1));
    TinyRun run(spec);
    const RunPlan& plan = run.plan();
    CHECK(adapted_values(run) == TinyRun([&] {
                                     RunSpec plain = spec;
                                     plain.adapter.reset();
                                     return plain;
                                 }())
                                     .state("weight"));
    CHECK(elements_of(run.gradients()) == parameter_count(plan.model) - frozen_parameters(plan));
    CHECK(frozen_parameters(plan) == parameter_count(without_adapter(plan.model)));
}

TEST_CASE("the gradients of virtual tokens are the same in every recompute mode and schedule",
          "[model][prompt]") {
    RunSpec spec = prompt_variant(GENERATE(0, 1, 2));
    spec.precision.compute = GENERATE(Precision::fp32, Precision::bf16);
    spec.model.dropout = 0.1;
    check_modes(spec, [](TinyRun&) {});
}

TEST_CASE("the gradients of virtual tokens are those of the loss", "[model][prompt]") {
    RunSpec spec = prompt_variant(GENERATE(0, 1));
    spec.model.dropout = 0.1;
    spec.optimizer.lr = 0;
    spec.optimizer.clip_grad = 0;
    TinyRun run(spec);
    const NamedValues weights = run.state("weight");
    const StepBatch batch = random_batch(run.plan(), 1);
    run.step(batch);
    const NamedValues gradients = run.gradients();
    const auto loss_at = [&](const std::string& name, double distance) {
        NamedValues moved = weights;
        const std::vector<float>& gradient = gradients.at(name);
        for (std::size_t i = 0; i < gradient.size(); ++i)
            moved[name][i] += static_cast<float>(distance * gradient[i]);
        run.set_weights(moved);
        return run.step(batch);
    };
    for (const auto& [name, gradient] : gradients) {
        CAPTURE(name);
        const double size = norm(gradient);
        REQUIRE(size > 0);
        const auto difference = [&, &name = name](double step) {
            return (loss_at(name, step) - loss_at(name, -step)) / (2 * step);
        };
        const double step = 1e-2 / size;
        const double coarse = difference(step);
        const double fine = difference(step / 2);
        // Two losses, each rounded to fp32; beyond that, the error falls with the step, also where
        // a relu bends.
        const double rounding = 2 * 0x1p-23 * loss_at(name, 0) / step;
        CHECK(std::abs(fine - size * size) <= std::abs(coarse - fine) + rounding);
    }
}

TEST_CASE("the model with virtual tokens keeps its values and takes the predicted memory",
          "[model][prompt]") {
    const bool is_bf16 = GENERATE(false, true);
    RunSpec spec = prompt_variant(is_bf16 ? 2 : 0);
    spec.precision.compute = is_bf16 ? Precision::bf16 : Precision::fp32;
    TinyRun run(spec);
    const NamedValues before = adapted_values(run);
    const double first = run.step(random_batch(run.plan(), 1));
    double last = first;
    for (int step = 2; step <= 100; ++step) {
        StepBatch batch = random_batch(run.plan(), 1);
        batch.step = step;
        last = run.step(batch);
    }
    CHECK(last < first);
    CHECK(adapted_values(run) == before);
    run.engine().evaluate(random_batch(run.plan(), 1));
    CHECK(run.engine().memory().peaks() == run.memory_plan());
    const NamedValues gradients = run.gradients();
    const std::int64_t trained = elements_of(gradients);
    const std::int64_t gaps = 2 * Arena::alignment * static_cast<std::int64_t>(gradients.size());
    CHECK(run.memory_plan()[MemoryUse::main_grads] <= 4 * trained + gaps);
    CHECK(run.memory_plan()[MemoryUse::optimizer] <= 8 * trained + gaps);
}
