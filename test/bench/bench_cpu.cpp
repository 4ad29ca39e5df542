// Whole optimizer steps of the GPT-2 124M shape on the CPU backend, compared with the speed of
// oneDNN's own GEMM in the same process on the same threads.
//
//   bench_cpu SEQUENCES SEQ_LENGTH fp32|bf16 [STEPS]
//
// Prints one JSON object: shape, dtype, tokens_per_s (median of STEPS steps after two warmup
// steps), model_gflops, onednn_gflops (null if oneDNN has no such GEMM), ratio, peak_bytes of the
// process, predicted_bytes of the meter.
#include <dnnl.hpp>
#include <omp.h>
#include <optional>
#include <string>
#include <sys/resource.h>
#include <vector>

#include "base/json.h"
#include "base/log.h"
#include "calibrate/made_up_batch.h"
#include "cpu/cpu_backend.h"
#include "cpu_step.h"
#include "engine/engine.h"
#include "spec/make_plan.h"

using namespace gptrain;

namespace {

/// GFLOP/s of a GEMM [1024, 768] x [768, 3072] with fp32 output.
std::optional<double> gemm_rate(Precision precision) {
    using dnnl::memory;
    constexpr memory::dim m = 1024;
    constexpr memory::dim n = 3072;
    constexpr memory::dim k = 768;
    const auto type =
        precision == Precision::bf16 ? memory::data_type::bf16 : memory::data_type::f32;
    const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
    dnnl::stream stream(engine);
    const memory::desc a({m, k}, type, memory::format_tag::ab);
    const memory::desc b({k, n}, type, memory::format_tag::ab);
    const memory::desc c({m, n}, memory::data_type::f32, memory::format_tag::ab);
    try {
#if DNNL_VERSION_MAJOR >= 3
        const dnnl::matmul::primitive_desc description(engine, a, b, c);
#else
        const dnnl::matmul::primitive_desc description(dnnl::matmul::desc(a, b, c), engine);
#endif
        const dnnl::matmul product(description);
        memory a_memory(a, engine);
        memory b_memory(b, engine);
        memory c_memory(c, engine);
        // Non-zero values: small numbers whose bits are denormal in neither type.
        for (const memory& operand : {a_memory, b_memory}) {
            auto* words = static_cast<std::uint16_t*>(operand.get_data_handle());
            for (std::size_t i = 0; i < operand.get_desc().get_size() / 2; ++i) {
                words[i] = static_cast<std::uint16_t>(0x3c00 + i % 255);
            }
        }
        const auto run = [&](int times) {
            for (int i = 0; i < times; ++i) {
                product.execute(stream, {{DNNL_ARG_SRC, a_memory},
                                         {DNNL_ARG_WEIGHTS, b_memory},
                                         {DNNL_ARG_DST, c_memory}});
            }
            stream.wait();
        };
        constexpr int repeats = 20;
        run(repeats);
        std::vector<double> seconds;
        for (int i = 0; i < 9; ++i)
            seconds.push_back(bench::seconds_of([&] { run(repeats); }) / repeats);
        return 2.0 * m * n * k / bench::median(seconds) * 1e-9;
    } catch (const dnnl::error&) {
        return std::nullopt;
    }
}

std::int64_t peak_bytes() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss * 1024;
}

Json measure(std::int64_t sequences, std::int64_t seq_length, Precision precision,
             std::int64_t steps) {
    const RunSpec spec = bench::gpt2_124m(sequences, seq_length, precision);
    const RunPlan plan = make_plan(spec, {});
    const auto backend = cpu::make_backend();
    const Mesh mesh = one_rank_mesh();
    const StepCost cost = measure_run(plan, {}, memory_of(*backend));
    Engine engine(*backend, mesh, plan, cost.memory);
    engine.initialise();
    StepBatch batch = made_up_batch(plan, mesh.place().dp);
    std::vector<double> seconds;
    for (std::int64_t step = 1; step <= steps + 2; ++step) {
        batch.step = step;
        const double elapsed = bench::seconds_of([&] {
            engine.step(batch);
            engine.read_state();
        });
        if (step > 2) seconds.push_back(elapsed);
    }
    const std::int64_t peak = peak_bytes();
    const double tokens_per_s = batch.weight_sum / bench::median(seconds);
    const double gflops = tokens_per_s * flops_per_token(plan.model, seq_length) * 1e-9;
    const std::optional<double> own_rate = gemm_rate(precision);
    const double rate = own_rate ? *own_rate : gemm_rate(Precision::fp32).value();
    return {{"shape", text("B", sequences, "xT", seq_length)},
            {"dtype", name_of(precision)},
            {"tokens_per_s", tokens_per_s},
            {"model_gflops", gflops},
            {"onednn_gflops", own_rate ? Json(*own_rate) : Json()},
            {"ratio", gflops / rate},
            {"peak_bytes", peak},
            {"predicted_bytes", cost.memory.total()}};
}

}  // namespace

int main(int argc, char** argv) {
    const std::vector<std::string> words(argv + 1, argv + argc);
    const bool counted = words.size() == 3 || words.size() == 4;
    const auto sequences = counted ? parse_int(words[0]) : std::nullopt;
    const auto seq_length = counted ? parse_int(words[1]) : std::nullopt;
    const auto steps = words.size() == 4 ? parse_int(words[3]) : 5;
    if (!sequences || !seq_length || !steps || (words[2] != "fp32" && words[2] != "bf16")) {
        warn("usage: bench_cpu SEQUENCES SEQ_LENGTH fp32|bf16 [STEPS]");
        return 2;
    }
    const Precision precision = words[2] == "bf16" ? Precision::bf16 : Precision::fp32;
    try {
        print(to_line(measure(*sequences, *seq_length, precision, *steps)));
    } catch (const Error& error) {
        error_line("bench_cpu", error.what());
        return static_cast<int>(error.code());
    }
    return 0;
}
