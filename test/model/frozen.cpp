// Parameters that are not trained.
#include <algorithm>

#include "catch.h"
#include "schedule/stage_plan.h"
#include "spec/make_plan.h"
#include "spec/model_cost.h"
#include "tiny_run.h"

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

/// A norm, linear layers with and without their bias, a whole block, the head or the embedding.
std::vector<std::string> patterns_for(const RunSpec& spec) {
    std::vector<std::string> patterns = {
        "wte.weight",        "h.1.*",      "h.0.attn.q.weight",  "h.0.attn.k.weight",
        "h.0.attn.v.weight", "h.2.ln_2.*", "h.*.mlp.proj.weight"};
    if (spec.model.bias) patterns.emplace_back("h.0.mlp.fc.bias");
    if (spec.model.qk_norm != QkNorm::none) patterns.emplace_back("h.2.attn.q_norm.weight");
    return patterns;
}

bool is_frozen(const RunPlan& plan, const std::string& name) {
    return !plan.parameters.trains(name);
}

NamedValues frozen_of(TinyRun& run) {
    NamedValues frozen = run.state("weight");
    std::erase_if(frozen, [&](const auto& entry) { return !is_frozen(run.plan(), entry.first); });
    return frozen;
}

}  // namespace

TEST_CASE("the gradients of the others do not change when parameters are frozen", "[model]") {
    RunSpec spec = variant(GENERATE(0, 1, 2, 3));
    using enum ScheduleKind;
    const auto [precision, recompute, schedule] =
        GENERATE(table<Precision, Recompute, ScheduleKind>(
            {{Precision::fp32, Recompute::none, one_f_one_b},
             {Precision::fp32, Recompute::full, zero_bubble},
             {Precision::bf16, Recompute::selective, one_f_one_b},
             {Precision::fp8, Recompute::none, zero_bubble},
             {Precision::fp8, Recompute::selective, one_f_one_b},
             {Precision::fp8, Recompute::full, one_f_one_b}}));
    spec.precision.compute = precision;
    spec.recompute = recompute;
    spec.parallel.schedule = schedule;
    if (precision == Precision::fp8) spec.model.ffn_hidden_size = 64;
    spec.model.dropout = 0.1;
    TinyRun all(spec);
    spec.training.frozen = patterns_for(spec);
    TinyRun some(spec);
    const StepBatch batch = random_batch(all.plan(), 1);
    CHECK(all.step(batch) == some.step(batch));
    NamedValues expected = all.gradients();
    const std::size_t tensors = expected.size();
    std::erase_if(expected, [&](const auto& entry) { return is_frozen(some.plan(), entry.first); });
    CHECK(expected.size() < tensors);
    CHECK(some.gradients() == expected);
}

TEST_CASE("frozen parameters keep their values and take no more memory than these", "[model]") {
    RunSpec spec = variant(GENERATE(0, 2));
    spec.precision.compute = GENERATE(Precision::fp32, Precision::bf16);
    TinyRun all(spec);
    spec.training.frozen = patterns_for(spec);
    TinyRun some(spec);
    const NamedValues before = frozen_of(some);
    CHECK(before.size() > 10);
    for (int step = 1; step <= 3; ++step)
        some.step(random_batch(some.plan(), step));
    CHECK(frozen_of(some) == before);
    some.engine().evaluate(random_batch(some.plan(), 1));
    CHECK(some.engine().memory().peaks() == some.memory_plan());

    // Every buffer is as much smaller as the frozen parameters are large, but for alignment.
    const std::int64_t frozen = frozen_parameters(some.plan());
    const auto saved = [&](MemoryUse use) {
        return all.memory_plan()[use] - some.memory_plan()[use];
    };
    const auto tensors = static_cast<std::int64_t>(all.state("weight").size());
    const auto about = [&](MemoryUse use, std::int64_t bytes) {
        CHECK(std::abs(saved(use) - bytes) <= tensors * 2 * Arena::alignment);
    };
    about(MemoryUse::weights, 0);
    about(MemoryUse::main_grads, 4 * frozen);
    about(MemoryUse::optimizer, 8 * frozen);
    about(MemoryUse::main_params, spec.precision.compute == Precision::fp32 ? 0 : 4 * frozen);
}

TEST_CASE("the weight GEMMs of frozen matrices are not computed", "[model]") {
    RunSpec spec = tiny_spec();
    TinyRun all(spec);
    spec.training.frozen = {"h.1.*", "h.2.attn.proj.*"};
    TinyRun some(spec);
    const RunPlan& plan = some.plan();
    const std::int64_t hidden = plan.model.hidden;
    const std::int64_t matrices = 12 * hidden * hidden + hidden * hidden;
    const std::int64_t tokens = plan.batch.global_batch_size * plan.seq_length;
    CHECK(all.cost().forward_and_backward.gemms - some.cost().forward_and_backward.gemms ==
          2.0 * static_cast<double>(tokens * matrices));
    CHECK(flops_per_token(all.plan()) - flops_per_token(plan) ==
          2.0 * static_cast<double>(frozen_parameters(plan)));
}

TEST_CASE("frozen weights start with the values that they would have as trained ones", "[model]") {
    RunSpec spec = tiny_llama_spec();
    spec.model.vocab_size = 30'000;  // drawn in several parts
    spec.precision.compute = Precision::bf16;
    TinyRun all(spec);
    const NamedValues expected = all.state("weight");
    spec.training.frozen = {"wte.weight", "h.0.*"};
    TinyRun some(spec);
    for (const auto& [name, values] : frozen_of(some)) {
        CAPTURE(name);
        const std::vector<float>& exact = expected.at(name);
        CHECK(std::equal(
            values.begin(), values.end(), exact.begin(), exact.end(),
            [](float rounded, float value) { return rounded == to_float(to_bf16(value)); }));
    }
}
