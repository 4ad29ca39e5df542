// Compares a model on the GPU with the same model on the CPU, in sizes that the fast kernels
// support.
#include <cmath>

#include "catch.h"
#include "cpu/cpu_backend.h"
#include "cuda/cuda_backend.h"
#include "tiny_run.h"

using namespace gptrain;
using namespace gptrain::test;

namespace {

constexpr double bf16_roundoff = 0x1p-8;
constexpr double fp32_roundoff = 0x1p-24;

/// GPT-2's parts with heads of 64, or Llama's with grouped heads of 128.
RunSpec parity_spec(bool llama, Precision precision) {
    RunSpec spec = llama ? tiny_llama_spec() : tiny_spec();
    spec.model.num_layers = 2;
    spec.model.hidden_size = llama ? 256 : 192;
    spec.model.num_attention_heads = llama ? 2 : 3;
    if (llama) spec.model.num_query_groups = 1;
    spec.model.ffn_hidden_size = 512;
    spec.model.vocab_size = 1009;
    spec.model.dropout = 0.1;
    spec.training.seq_length = 192;
    spec.precision.compute = precision;
    spec.optimizer.lr = 1e-3;
    return spec;
}

struct Result {
    std::vector<double> losses;
    NamedValues gradients;  ///< of the first step
    NamedValues weights;    ///< after the last
};

/// Three steps from these weights; if there are none, from the seed's initial weights.
Result train_steps(const RunSpec& spec, std::unique_ptr<Backend> backend,
                   const NamedValues& weights = {}) {
    TinyRun run(spec, std::move(backend));
    if (!weights.empty()) run.set_weights(weights);
    Result result;
    for (int step = 1; step <= 3; ++step) {
        result.losses.push_back(run.step(random_batch(run.plan(), step)));
        if (step == 1) result.gradients = run.gradients();
    }
    result.weights = run.state("weight");
    return result;
}

std::unique_ptr<Backend> gpu_backend(bool graphs = false) {
    cuda::Options options = cuda::options_from_environment();
    options.graphs = graphs;
    return cuda::make_backend(0, options);
}

}  // namespace

TEST_CASE("starting weights are the same on GPU and CPU within a rounding", "[gpu]") {
    const RunSpec spec = parity_spec(false, Precision::fp32);
    TinyRun cpu(spec, cpu::make_backend());
    TinyRun gpu(spec, gpu_backend());
    const NamedValues on_cpu = cpu.state("weight");
    for (const auto& [name, values] : gpu.state("weight")) {
        CAPTURE(name);
        // A logarithm, a square root, a cosine and two products, each within a few ulps.
        CHECK(distance(values, on_cpu.at(name)) <= 16 * fp32_roundoff * norm(values));
    }
}

TEST_CASE("in fp32 a model on the GPU computes what it computes on the CPU", "[gpu]") {
    const RunSpec spec = parity_spec(GENERATE(false, true), Precision::fp32);
    const NamedValues weights = TinyRun(spec, cpu::make_backend()).state("weight");
    const Result cpu = train_steps(spec, cpu::make_backend(), weights);
    const Result gpu = train_steps(spec, gpu_backend(), weights);
    for (std::size_t i = 0; i < cpu.losses.size(); ++i) {
        CAPTURE(i);
        CHECK(gpu.losses[i] == Approx(cpu.losses[i]).epsilon(1e-6));
    }
    // Sums in another order: a few roundings each, relative to the whole tensor.
    for (const auto& [name, values] : gpu.gradients) {
        CAPTURE(name, norm(values));
        CHECK(distance(values, cpu.gradients.at(name)) <=
              100 * fp32_roundoff * (norm(values) + 1e-3));
    }
}

TEST_CASE("in bf16 a model on the GPU is as near to fp32 as on the CPU", "[gpu]") {
    const bool llama = GENERATE(false, true);
    cuda::Options options = cuda::options_from_environment();
    options.deterministic = GENERATE(true, false);
    const RunSpec spec = parity_spec(llama, Precision::bf16);
    const RunSpec exact_spec = parity_spec(llama, Precision::fp32);
    const NamedValues weights = TinyRun(exact_spec, cpu::make_backend()).state("weight");
    const Result exact = train_steps(exact_spec, cpu::make_backend(), weights);
    const Result cpu = train_steps(spec, cpu::make_backend(), weights);
    const Result gpu = train_steps(spec, cuda::make_backend(0, options), weights);
    for (std::size_t i = 0; i < exact.losses.size(); ++i) {
        CAPTURE(i);
        CHECK(std::abs(gpu.losses[i] - exact.losses[i]) <= bf16_roundoff * exact.losses[i]);
    }
    // Twice the error of the naive computation in bf16.
    for (const auto& [name, values] : gpu.gradients) {
        const std::vector<float>& right = exact.gradients.at(name);
        CAPTURE(name, norm(right));
        CHECK(distance(values, right) <=
              2 * (distance(cpu.gradients.at(name), right) + fp32_roundoff * norm(right)));
    }
}

TEST_CASE("the fast kernels recompute and repeat bit for bit", "[gpu]") {
    RunSpec spec = parity_spec(GENERATE(false, true), GENERATE(Precision::bf16, Precision::fp16));
    const Result selective = train_steps(spec, gpu_backend());
    REQUIRE(std::isfinite(selective.losses.back()));
    const auto check_same = [&](const Result& other) {
        CHECK(other.losses == selective.losses);
        CHECK(other.gradients == selective.gradients);
        CHECK(other.weights == selective.weights);
    };
    SECTION("in another run") {
        check_same(train_steps(spec, gpu_backend()));
    }
    SECTION("without recomputation") {
        spec.recompute = Recompute::none;
        check_same(train_steps(spec, gpu_backend()));
    }
    SECTION("with full recomputation") {
        spec.recompute = Recompute::full;
        check_same(train_steps(spec, gpu_backend()));
    }
    SECTION("from recorded graphs") {
        check_same(train_steps(spec, gpu_backend(true)));
    }
}
