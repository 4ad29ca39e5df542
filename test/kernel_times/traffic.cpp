#include "kernel_times/traffic.h"

namespace gptrain::test {
namespace {

struct TrafficKernel {
    const char* what;
    const char* file;
    const char* kernel;
};

constexpr TrafficKernel kernels[] = {
    {"norms, forward, H 768", "norm/forward.cu", "forward_kernel<Bf16, 32, 3, true, false>"},
    {"norms, forward, H 1600", "norm/forward.cu", "forward_kernel<Bf16, 128, 2, true, false>"},
    {"norms, forward, H 4096", "norm/forward.cu", "forward_kernel<Bf16, 128, 4, true, false>"},
    {"norms, backward, H 768", "norm/backward.cu", "backward_kernel<Bf16, 3, false>"},
    {"norms, backward, larger", "norm/backward.cu", "backward_kernel<Bf16, 2, false>"},
    {"sum of the residual stream", "norm/residual_add.cu", "residual_add_kernel<Bf16, true>"},
    {"norms of heads, forward", "norm/head_norm.cu", "head_norm_forward_kernel<Bf16, true>"},
    {"norms of heads, backward", "norm/head_norm.cu", "head_norm_backward_kernel<Bf16, true>"},
    {"GELU", "ops/activation.cu", "forward_kernel<Bf16, 0, true, false>"},
    {"GELU, backward", "ops/activation.cu", "backward_kernel<Bf16, 0, true, false>"},
    {"GELU, exact", "ops/activation.cu", "forward_kernel<Bf16, 1, true, false>"},
    {"GELU, exact, backward", "ops/activation.cu", "backward_kernel<Bf16, 1, true, false>"},
    {"SwiGLU", "ops/activation.cu", "forward_kernel<Bf16, 2, true, false>"},
    {"SwiGLU, backward", "ops/activation.cu", "backward_kernel<Bf16, 2, true, false>"},
    {"embedding, forward", "ops/embedding.cu", "look_up<Bf16, true>"},
    {"positions, forward", "ops/embedding.cu", "add_positions<Bf16, true>"},
    {"embedding and positions, backward", "ops/row_sums.cu", "sum_chunks<Bf16, true>"},
    {"epilogues apart", "ops/linear.cu", "apply_epilogue_kernel<Bf16, 4>"},
    {"biases apart", "ops/linear_bias.cu", "add_bias_kernel<Bf16, true>"},
    {"bias gradients", "ops/linear_bias.cu", "bias_grad_kernel<Bf16, true>"},
    {"gradient norm", "ops/optimizer.cu", "sum_chunks"},
    {"AdamW", "ops/optimizer.cu", "update_chunks<Bf16>"},
    {"rotary positions", "ops/rope.cu", "rope_kernel<Bf16, true>"},
    {"FP8: maxima", "ops/fp8.cu", "find_amax<Bf16, 8>"},
    {"FP8: conversion of rows", "ops/fp8.cu", "convert_tiles<Bf16, F8E4M3, false>"},
    {"FP8: conversion and sum of rows", "ops/fp8.cu", "convert_tiles<Bf16, F8E5M2, true>"},
};

template <class BoundsOn>
Row traffic_row(const std::string& what, const std::vector<Gpu>& gpus, const BoundsOn& bounds_on) {
    Row row = {what};
    for (const Gpu& gpu : gpus) {
        Bounds bounds = bounds_on(gpu);
        const double seconds_of_bytes = bounds.memory;
        bounds.memory = 0;
        row.push_back(
            text(fixed(100 * bounds.together() / seconds_of_bytes, 0), " % ", bounds.largest()));
    }
    return row;
}

}  // namespace

Bounds cross_entropy(const KernelTable& table, const Gpu& gpu, double bytes) {
    const std::string file = "ops/cross_entropy.cu";
    const std::string kernel = "unsplit_kernel<Bf16, true>";
    // Loading a piece kept in shared memory takes as many instructions as from global memory.
    Bounds all = table.traffic(gpu, file, kernel, bytes);
    all.add_instructions(table.traffic(gpu, file, kernel + ", reading", bytes / 2));
    return all;
}

std::vector<Row> traffic_rows(const KernelTable& table, const std::vector<Gpu>& gpus) {
    constexpr double bytes = 1e9;
    std::vector<Row> rows;
    for (const TrafficKernel& each : kernels) {
        rows.push_back(traffic_row(each.what, gpus, [&](const Gpu& gpu) {
            return table.traffic(gpu, each.file, each.kernel, bytes);
        }));
    }
    rows.push_back(traffic_row("cross-entropy", gpus,
                               [&](const Gpu& gpu) { return cross_entropy(table, gpu, bytes); }));
    return rows;
}

}  // namespace gptrain::test
