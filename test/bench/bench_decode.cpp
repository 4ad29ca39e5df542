// The GPT-2 124M shape reads a prompt and writes token by token on the CPU backend. The same
// process measures the limits on the same threads: oneDNN's own GEMM for the prompt, loops over
// memory for the tokens.
//
//   bench_decode fp32|bf16|int8 [TOKENS]
//
// Prints one JSON object: weights; prompt_tokens_per_s and prompt_gflops of a prompt of 512 tokens;
// onednn_gflops (in fp32 if oneDNN has no such GEMM), prompt_ratio; decode_tokens_per_s of TOKENS
// tokens (64) after the prompt; decode_gb_per_s, what their ops read and write; copy_gb_per_s and
// read_gb_per_s of loops over 1 GiB, decode_ratio to the former. Rates are medians: of 9 prompts,
// of GEMMs after each prompt, of the tokens, of loops that run before every eighth token. int8:
// int8 weights, all else in bf16.
#include <cstring>
#include <numeric>
#include <omp.h>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/log.h"
#include "cpu/cpu_backend.h"
#include "cpu_step.h"
#include "gemm_rate.h"
#include "infer/generator.h"
#include "spec/make_plan.h"
#include "timing.h"

using namespace gptrain;

namespace {

constexpr std::int64_t prompt_tokens = 512;

/// Loops over two arrays of 1 GiB each, on all threads. They take turns with what is compared with
/// them, because the bandwidth of a shared machine changes within seconds.
class MemoryLoops {
public:
    /// Runs each loop once.
    void run() {
        copies_.push_back(
            seconds([](const std::uint64_t* from, std::uint64_t* to, std::int64_t words) {
                std::memcpy(to, from, static_cast<std::size_t>(words) * 8);
            }));
        reads_.push_back(
            seconds([](const std::uint64_t* from, std::uint64_t* to, std::int64_t words) {
                to[0] = std::accumulate(from, from + words, std::uint64_t{0});
            }));
    }
    /// GB/s read and written.
    double copy_rate() const { return 2 * rate(copies_); }
    /// GB/s read.
    double read_rate() const { return rate(reads_); }

private:
    /// The seconds of loop(from, to, words).
    double seconds(const auto& loop) {
        return bench::seconds_of([&] {
#pragma omp parallel
            {
                const std::int64_t part = length / omp_get_num_threads();
                const std::int64_t begin = part * omp_get_thread_num();
                loop(from_.data() + begin, to_.data() + begin, part);
            }
        });
    }

    /// GB/s of one array.
    static double rate(const std::vector<double>& seconds) {
        return 8 * static_cast<double>(length) / bench::median(seconds) * 1e-9;
    }

    static constexpr std::int64_t length = (std::int64_t{1} << 30) / 8;
    std::vector<std::uint64_t> from_ = std::vector<std::uint64_t>(length, 1);
    std::vector<std::uint64_t> to_ = std::vector<std::uint64_t>(length, 2);
    std::vector<double> copies_;
    std::vector<double> reads_;
};

/// The work of the ops that process `count` tokens after `before` others.
struct Work {
    double flops = 0;
    double bytes = 0;
};
Work work_of_tokens(const RunPlan& plan, const BackendMemory& needs, std::int64_t before,
                    std::int64_t count) {
    const StepTrace trace = trace_tokens(plan, {}, needs, before, count);
    Work work;
    for (const StepTrace::Part& part : trace.parts) {
        for (const TraceEvent& event : trace.bodies[static_cast<std::size_t>(part.body)]) {
            if (event.kind != TraceEvent::Kind::op) continue;
            const OpWork& op = trace.ops[static_cast<std::size_t>(event.index)];
            work.flops += op.flops;
            work.bytes += op.bytes;
        }
    }
    return work;
}

Precision compute_of(const std::string& weights) {
    return weights == "fp32" ? Precision::fp32 : Precision::bf16;
}

RunPlan plan_of(const std::string& weights, std::int64_t tokens) {
    RunSpec spec = bench::gpt2_124m(1, prompt_tokens + tokens, compute_of(weights));
    if (weights == "int8") spec.precision.frozen = FrozenWeights::int8;
    return make_plan(spec, {});
}

Json measure(const std::string& weights, std::int64_t tokens) {
    const RunPlan plan = plan_of(weights, tokens);
    const auto backend = cpu::make_backend();
    const BackendMemory needs = memory_of(*backend);
    const Mesh mesh = one_rank_mesh();
    ActionListeners nobody;
    Generator generator(*backend, mesh, plan, prompt_tokens, nobody,
                        measure_generator(plan, {}, needs, prompt_tokens).memory);
    generator.model().load([](const Shard& /*part*/, std::span<float> to) {
        for (std::size_t i = 0; i < to.size(); ++i)
            to[i] = 0.01f * static_cast<float>(i % 7);
    });
    const auto next = [&](std::int64_t count) {
        const std::vector<std::int32_t> given(static_cast<std::size_t>(count), 1);
        return bench::seconds_of(
            [&] { generator.next_token(given, [](std::span<const float>) { return 1; }); });
    };
    const auto read_prompt = [&] {
        generator.move_to(0);
        return next(prompt_tokens);
    };
    read_prompt();
    bench::GemmRate gemms(compute_of(weights));
    std::vector<double> prompts;
    for (int i = 0; i < 9; ++i) {
        prompts.push_back(read_prompt());
        gemms.run();
    }
    MemoryLoops loops;
    std::vector<double> steps;
    for (std::int64_t i = 0; i < tokens; ++i) {
        if (i % 8 == 0) loops.run();
        steps.push_back(next(1));
    }

    const double prompt = bench::median(prompts);
    const double step = bench::median(steps);
    const double gflops = work_of_tokens(plan, needs, 0, prompt_tokens).flops / prompt * 1e-9;
    const double rate =
        work_of_tokens(plan, needs, prompt_tokens + tokens / 2, 1).bytes / step * 1e-9;
    return {{"weights", weights},
            {"prompt_tokens_per_s", prompt_tokens / prompt},
            {"prompt_gflops", gflops},
            {"onednn_gflops", gemms.gflops()},
            {"prompt_ratio", gflops / gemms.gflops()},
            {"decode_tokens_per_s", 1 / step},
            {"decode_gb_per_s", rate},
            {"copy_gb_per_s", loops.copy_rate()},
            {"read_gb_per_s", loops.read_rate()},
            {"decode_ratio", rate / loops.copy_rate()}};
}

}  // namespace

int main(int argc, char** argv) {
    const std::vector<std::string> words(argv + 1, argv + argc);
    const auto tokens = words.size() == 2 ? parse_int(words[1]) : 64;
    const bool known =
        !words.empty() && (words[0] == "fp32" || words[0] == "bf16" || words[0] == "int8");
    if (!known || words.size() > 2 || !tokens || *tokens < 1) {
        warn("usage: bench_decode fp32|bf16|int8 [TOKENS]");
        return 2;
    }
    try {
        print(to_line(measure(words[0], *tokens)));
    } catch (const Error& error) {
        error_line("bench_decode", error.what());
        return static_cast<int>(error.code());
    }
    return 0;
}
