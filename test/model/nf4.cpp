// Frozen weights in NF4.
#include "base/nf4.h"

#include <cmath>
#include <span>

#include "adapter_values.h"
#include "catch.h"
#include "meter/meter_backend.h"
#include "model/chunk.h"
#include "model/quantised_loads.h"
#include "spec/make_plan.h"

using namespace gptrain;
using namespace gptrain::test;

namespace {

RunSpec adapted_model(int index) {
    switch (index) {
        case 0: return with_lora(tiny_spec());
        case 1: return with_lora(tiny_llama_spec(), false);
        case 2: return with_virtual_tokens(tiny_qwen_spec(), AdapterKind::prompt);
        default: return with_lora(tiny_experts_spec());
    }
}

RunSpec in_nf4(RunSpec spec, bool nested) {
    spec.precision.frozen = FrozenWeights::nf4;
    spec.precision.nf4_double = nested;
    return spec;
}

/// Calls f for each matrix of the model that is in NF4.
void for_each_nf4(TinyRun& run, const std::function<void(const StreamedState&)>& f) {
    run.engine().stream_model([&](std::span<const StreamedState> states) {
        for (const StreamedState& state : states)
            if (state.on_stored) f(state);
    });
}

/// The values of one matrix of a tensor, or of an expert's.
std::span<float> values_of(NamedValues& weights, const Shard& shard) {
    const auto size = static_cast<std::size_t>(shard.elements());
    const auto expert = static_cast<std::size_t>(shard.box.offset[0]);
    const bool of_experts = shard.global.rank() == 3;
    return std::span(weights.at(shard.name)).subspan(of_experts ? expert * size : 0, size);
}

/// Gives the run these weights, either as values or, with `stored`, as a file has them in NF4.
/// Returns the resulting values.
NamedValues give(TinyRun& run, NamedValues weights, bool nested, bool stored = false) {
    for_each_nf4(run, [&](const StreamedState& state) {
        const std::span<float> values = values_of(weights, state.shard);
        const Nf4Bytes matrix = to_nf4(values, nested);
        if (stored) {
            state.on_stored(matrix.view());
        } else {
            run.backend().upload(state.values, std::as_bytes(values));
            state.on_filled();
        }
        matrix.view().read(0, 1, values);
    });
    NamedValues others;
    for (const auto& [name, values] : run.state("weight"))
        others.emplace(name, weights.at(name));
    run.set_weights(others);
    return weights;
}

/// A rank's part of a model on two ranks of tp, with nested scales.
struct Weights {
    Weights(Backend& backend, const RunPlan& plan, std::int64_t rank,
            const std::optional<MemoryPlan>& needed)
        : memory(backend, needed),
          parameters(memory,
                     make_layout(
                         {.model = plan.model,
                          .chunks = {{.num_layers = plan.model.layers}},
                          .mesh = {.tensor = 2},
                          .tensor_rank = rank,
                          .quantised = {.format = QuantisedFormat::nf4_double, .inference = true}}),
                     DType::f32, Parameters::Use::inference) {}
    Memory memory;
    Parameters parameters;
};

Tensor tensor_of(std::vector<float>& values) {
    return {reinterpret_cast<std::byte*>(values.data()), DType::f32, {std::ssize(values)}};
}

/// Values of very different sizes.
float value_at(std::int64_t index) {
    const auto size = std::exp2(static_cast<double>(index / 1000 % 13));
    return static_cast<float>(std::sin(static_cast<double>(index)) / size);
}

}  // namespace

TEST_CASE("the ranks of tp have the values of the whole matrix in NF4", "[model][nf4]") {
    RunSpec spec = tiny_llama_spec();
    spec.model.hidden_size = 256;
    spec.model.ffn_hidden_size = 384;
    spec.model.experts =
        ExpertsSpec{.count = 2, .per_token = 2, .ffn_hidden_size = 128, .layers = {.list = {1}}};
    const RunPlan plan = make_plan(spec, {});
    const std::int64_t rank = GENERATE(0, 1);
    const bool stored = GENERATE(false, true);
    MeterBackend meter({});
    const auto backend = tested_backend();
    const Weights weights(*backend, plan, rank, Weights(meter, plan, rank, {}).memory.peaks());
    std::map<std::string, std::vector<float>> expected;
    for (const QuantisedLoad& load : quantised_loads(*backend, weights.parameters)) {
        std::vector<float> whole(static_cast<std::size_t>(load.shard.elements()));
        for (std::int64_t i = 0; i < load.shard.elements(); ++i)
            whole[static_cast<std::size_t>(i)] = value_at(load.shard.global_index(i));
        const Nf4Bytes matrix = to_nf4(whole, true);
        stored ? load.set_stored(matrix.view()) : load.set(tensor_of(whole));
        matrix.view().read(0, 1, whole);
        std::vector<float>& all = expected[load.shard.name];
        all.insert(all.end(), whole.begin(), whole.end());
    }
    int compared = 0;
    for (const Parameter& parameter : weights.parameters.layout().parameters) {
        if (parameter.storage.in_compute_dtype) continue;
        const Nf4Matrix matrix = weights.parameters.nf4(parameter);
        std::vector<float> values(static_cast<std::size_t>(parameter.shard.elements()));
        backend->run(FromNf4{.x = matrix, .out = tensor_of(values).view(matrix.shape)});
        std::vector<float> part;
        for (std::int64_t i = 0; i < parameter.shard.elements(); ++i)
            part.push_back(expected.at(
                parameter.shard.name)[static_cast<std::size_t>(parameter.shard.global_index(i))]);
        INFO(parameter.shard.name);
        CHECK(values == part);
        ++compared;
    }
    CHECK(compared == 21);
}

TEST_CASE("a model in NF4 computes as one with the same values", "[model][nf4]") {
    RunSpec spec = adapted_model(GENERATE(0, 1, 2, 3));
    spec.precision.compute = GENERATE(Precision::fp32, Precision::bf16);
    const bool nested = GENERATE(false, true);
    TinyRun plain(spec);
    TinyRun run(in_nf4(spec, nested));
    const NamedValues given = plain.state("weight");
    const NamedValues dequantised = give(run, given, nested);
    CHECK(dequantised != given);
    plain.set_weights(dequantised);
    TinyRun stored(in_nf4(spec, nested));
    give(stored, given, nested, true);
    for (int step = 1; step <= 2; ++step) {
        const StepBatch batch = random_batch(plain.plan(), step);
        const double loss = plain.step(batch);
        CHECK(run.step(batch) == loss);
        CHECK(stored.step(batch) == loss);
        CHECK(run.gradients() == plain.gradients());
    }
    const StepBatch batch = random_batch(plain.plan(), 1);
    CHECK(run.engine().evaluate(batch).loss.sum == plain.engine().evaluate(batch).loss.sum);
}

TEST_CASE("a stored matrix in NF4 gets the scales that the run keeps", "[model][nf4]") {
    const RunSpec spec = adapted_model(0);
    TinyRun plain(spec);
    TinyRun run(in_nf4(spec, false));
    // Nested scales in the file, plain ones in the run: the same values.
    plain.set_weights([&] {
        NamedValues weights = plain.state("weight");
        for_each_nf4(run, [&](const StreamedState& state) {
            const std::span<float> values = values_of(weights, state.shard);
            const Nf4Bytes matrix = to_nf4(values, true);
            state.on_stored(matrix.view());
            matrix.view().read(0, 1, values);
        });
        NamedValues others;
        for (const auto& [name, values] : run.state("weight"))
            others.emplace(name, weights.at(name));
        run.set_weights(others);
        return weights;
    }());
    const StepBatch batch = random_batch(plain.plan(), 1);
    CHECK(run.step(batch) == plain.step(batch));
}

TEST_CASE("NF4 takes 4.5 bits for an element, or 4.127", "[model][nf4]") {
    RunSpec spec = adapted_model(0);
    spec.precision.compute = Precision::bf16;
    spec.model.hidden_size = 512;
    spec.model.num_layers = 1;
    const bool nested = GENERATE(false, true);
    const TinyRun plain(spec);
    TinyRun run(in_nf4(spec, nested));
    std::int64_t elements = 0;
    std::int64_t matrices = 0;
    std::int64_t factors = 0;
    for_each_nf4(run, [&](const StreamedState& state) {
        elements += state.shard.elements();
        ++matrices;
        factors += nf4_factors_size(1, div_ceil(state.shard.elements(), std::int64_t{64 * 256}));
    });
    const std::int64_t kept =
        elements / 2 + elements / 64 * (nested ? 1 : 4) + (nested ? factors * 4 : 0);
    const std::int64_t saved =
        plain.memory_plan()[MemoryUse::weights] - run.memory_plan()[MemoryUse::weights];
    CHECK(std::abs(saved - (2 * elements - kept)) <= 3 * Arena::alignment * matrices);
    run.step(random_batch(run.plan(), 1));
    run.engine().evaluate(random_batch(run.plan(), 1));
    CHECK(run.engine().memory().peaks() == run.memory_plan());
}

TEST_CASE("a model in NF4 computes the same in every recompute mode and schedule", "[model][nf4]") {
    RunSpec spec = in_nf4(adapted_model(GENERATE(2, 3)), true);
    spec.precision.compute = Precision::bf16;
    check_modes(spec, [](TinyRun& run) {
        NamedValues weights = run.state("weight");
        for_each_nf4(run, [&](const StreamedState& state) {
            std::vector<float>& values = weights[state.shard.name];
            for (std::int64_t i = 0; i < state.shard.elements(); ++i)
                values.push_back(static_cast<float>(std::sin(static_cast<double>(i + 1))) * 0.1F);
        });
        give(run, weights, true);
    });
}
