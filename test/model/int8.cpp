// Frozen weights in int8.
#include <algorithm>
#include <cmath>
#include <span>

#include "adapter_values.h"
#include "catch.h"

using namespace gptrain;
using namespace gptrain::test;

namespace {

RunSpec adapted_spec(int index) {
    switch (index) {
        case 0: return with_lora(tiny_spec());
        case 1: return with_lora(tiny_llama_spec(), false);
        case 2: return with_virtual_tokens(tiny_qwen_spec(), AdapterKind::prompt);
        case 3: return with_lora(tiny_experts_spec());
        default: return with_lora(tiny_neox_spec());
    }
}

RunSpec in_int8(RunSpec spec) {
    spec.precision.frozen = FrozenWeights::int8;
    return spec;
}

/// The rows as they read back from int8.
std::vector<float> through_int8(std::vector<float> values, std::int64_t columns) {
    for (std::size_t row = 0; row < values.size(); row += static_cast<std::size_t>(columns)) {
        const auto elements = std::span(values).subspan(row, static_cast<std::size_t>(columns));
        for (std::size_t begin = 0; begin < elements.size(); begin += 64) {
            const auto block =
                elements.subspan(begin, std::min<std::size_t>(64, elements.size() - begin));
            float largest = 0;
            for (const float x : block)
                largest = std::max(largest, std::abs(x));
            for (float& x : block)
                x = largest == 0 ? 0 : std::nearbyint(x * (127 / largest)) * (largest / 127);
        }
    }
    return values;
}

/// Calls f for each matrix of the model that is in int8.
void for_each_int8(TinyRun& run, const std::function<void(const StreamedState&)>& f) {
    run.engine().stream_model([&](std::span<const StreamedState> states) {
        for (const StreamedState& state : states)
            if (state.on_filled) f(state);
    });
}

/// Gives the run these weights, converting those that it keeps in int8. Returns the resulting
/// values.
NamedValues give(TinyRun& run, NamedValues weights) {
    for_each_int8(run, [&](const StreamedState& state) {
        std::vector<float>& values = weights.at(state.shard.name);
        run.backend().upload(state.values, std::as_bytes(std::span(values)));
        state.on_filled();
        values = through_int8(values, state.shard.global[state.shard.global.rank() - 1]);
    });
    NamedValues others;
    for (const auto& [name, values] : run.state("weight"))
        others.emplace(name, weights.at(name));
    run.set_weights(others);
    return weights;
}

}  // namespace

TEST_CASE("a model in int8 computes as one with the same values", "[model][int8]") {
    RunSpec spec = adapted_spec(GENERATE(0, 1, 2, 3, 4));
    spec.precision.compute = GENERATE(Precision::fp32, Precision::bf16, Precision::fp16);
    TinyRun plain(spec);
    TinyRun run(in_int8(spec));
    plain.set_weights(give(run, plain.state("weight")));
    for (int step = 1; step <= 3; ++step) {
        const StepBatch batch = random_batch(plain.plan(), step);
        CHECK(run.step(batch) == plain.step(batch));
        CHECK(run.gradients() == plain.gradients());
    }
    const StepBatch batch = random_batch(plain.plan(), 1);
    CHECK(run.engine().evaluate(batch).loss.sum == plain.engine().evaluate(batch).loss.sum);
}

TEST_CASE("the matrices of linear layers are in int8, and nothing else", "[model][int8]") {
    const RunSpec spec = adapted_spec(GENERATE(0, 1, 2, 3, 4));
    TinyRun run(in_int8(spec));
    std::int64_t matrices = 0;
    for_each_int8(run, [&](const StreamedState& state) {
        ++matrices;
        CHECK(state.shard.name.starts_with("h."));
        const bool of_experts = state.shard.name.find(".experts.") != std::string::npos;
        CHECK(state.shard.global.rank() == (of_experts ? 3 : 2));
    });
    const std::int64_t in_mlp = gated(spec.model.activation) ? 3 : 2;
    CHECK(matrices == spec.model.num_layers * (4 + in_mlp));
}

TEST_CASE("int8 takes a byte and a sixteenth for an element", "[model][int8]") {
    RunSpec spec = adapted_spec(0);
    spec.precision.compute = GENERATE(Precision::fp32, Precision::bf16);
    spec.model.hidden_size = 128;
    const TinyRun plain(spec);
    TinyRun run(in_int8(spec));
    std::int64_t elements = 0;
    std::int64_t matrices = 0;
    for_each_int8(run, [&](const StreamedState& state) {
        elements += state.shard.elements();
        ++matrices;
    });
    const std::int64_t before = elements * size_of(plain.plan().compute);
    const std::int64_t saved =
        plain.memory_plan()[MemoryUse::weights] - run.memory_plan()[MemoryUse::weights];
    const std::int64_t gaps = 2 * Arena::alignment * matrices;
    CHECK(std::abs(saved - (before - elements - elements / 16)) <= gaps);
    run.step(random_batch(run.plan(), 1));
    run.engine().evaluate(random_batch(run.plan(), 1));
    CHECK(run.engine().memory().peaks() == run.memory_plan());
}

TEST_CASE("a model in int8 computes the same in every recompute mode and schedule",
          "[model][int8]") {
    RunSpec spec = in_int8(adapted_spec(GENERATE(2, 3)));
    spec.precision.compute = Precision::bf16;
    check_modes(spec, [](TinyRun& run) {
        NamedValues weights = run.state("weight");
        for_each_int8(run, [&](const StreamedState& state) {
            std::vector<float>& values = weights[state.shard.name];
            for (std::int64_t i = 0; i < state.shard.elements(); ++i)
                values.push_back(static_cast<float>(std::sin(static_cast<double>(i + 1))) * 0.1F);
        });
        give(run, weights);
    });
}
