// The measurements of bench_gpu. Every function opens the first GPU and returns one JSON object.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "spec/run_spec.h"

namespace gptrain::bench {

/// Dense bf16 peak of an H100 or H200 SXM in its data sheet, FLOP/s. MFU is relative to it in every
/// precision.
constexpr double peak_flops = 989e12;

struct StepOptions {
    std::string model;  ///< see model_spec
    std::int64_t microbatches = 1;
    std::optional<std::int64_t> micro_batch_size;  ///< default: the model's
    Precision precision = Precision::bf16;
    std::optional<Fp8Recipe> fp8_recipe;            ///< default: that of a run
    std::optional<Precision> fp8_weight_gradients;  ///< default: those of the recipe
    /// Default: the first of none, selective and full whose plan fits in free memory.
    std::optional<Recompute> recompute;
    double seconds = 60;      ///< for the timed steps, of which there are 5 to 20
    bool graphs = false;      ///< replay recorded graphs
    bool tune = true;         ///< time the algorithms of GEMMs
    double warm_seconds = 0;  ///< of GEMMs before that, to bring the device to its clock under load
    bool deterministic = true;
    std::int64_t layers = 0;  ///< 0: the model's
    std::int64_t vocab = 0;   ///< 0: the model's
};

/// gpt2-124m (64 x 1024), gpt2-1.5b (32 x 1024), gpt3-6.7b (4 x 2048) or llama-7b (1 x 4096):
/// layers, hidden size, heads and a microbatch. Any other name is an Error (usage).
RunSpec model_spec(const StepOptions& options);

/// Whole training steps, including data loading and the optimizer, then the time of each op.
Json measure_step(const StepOptions& options);

/// TFLOP/s of back-to-back GEMMs y = x w^T, all 8192 x 8192 in bf16 with random values, measured
/// for `seconds`.
Json measure_product(double seconds);

/// Bandwidth of a copy and of every memory-bound op. The tensors rotate through sets of 512 MB and
/// more, so that none is cached.
Json measure_kernels();

/// The GEMMs of a block of GPT-2 124M (64 x 1024, bf16), tuned, while other kernels hold as many
/// multiprocessors, one row for each number.
Json measure_contention(const std::vector<int>& held);

/// Its weight gradients with 32, 64 and 128 MiB of workspace, and its projections with the residual
/// added by the GEMM, with and without a bias.
Json measure_gemms();

/// TFLOP/s of each compiled attention kernel, forward and backward, in the models' shapes.
Json measure_attention();

}  // namespace gptrain::bench
