// What bench_gpu measures. Every function opens the first GPU and gives one JSON object.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "base/json.h"
#include "spec/run_spec.h"

namespace gptrain::bench {

/// Dense bf16 products of an H100 or H200 SXM by its data sheet, FLOP/s: what MFU is a share of,
/// for every precision.
constexpr double peak_flops = 989e12;

struct StepOptions {
    std::string model;  ///< see model_spec
    std::int64_t microbatches = 1;
    std::optional<std::int64_t> micro_batch_size;  ///< default: the model's
    Precision precision = Precision::bf16;
    /// Default: the first of none, selective and full whose plan fits into the free memory.
    std::optional<Recompute> recompute;
    double seconds = 60;      ///< for the timed steps: at most 20, at least 5
    bool graphs = false;      ///< replay recorded graphs
    bool tune = true;         ///< time the algorithms of products
    std::int64_t layers = 0;  ///< 0: the model's
};

/// gpt2-124m (64 x 1024), gpt2-1.5b (32 x 1024) or gpt3-6.7b (4 x 2048): L, H, heads, and a
/// microbatch. Another name: Error (usage).
RunSpec model_spec(const StepOptions& options);

/// Whole training steps, data loading and optimizer included, and then the time of each op.
Json measure_step(const StepOptions& options);

/// TFLOP/s of products y = x w^T, all 8192 x 8192 in bf16 with random values, back to back for that
/// long.
Json measure_product(double seconds);

/// Bandwidth of a copy and of every memory-bound op, on sets of tensors of 512 MB and more that are
/// used in turn.
Json measure_kernels();

/// TFLOP/s of each compiled attention, forward and backward, in the shapes of the models.
Json measure_attention();

}  // namespace gptrain::bench
