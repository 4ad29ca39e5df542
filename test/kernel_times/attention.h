// The attention kernels of a step.
#pragma once

#include "kernel_times/bounds.h"
#include "kernel_times/step_work.h"

namespace gptrain::test {

/// Those for sm_90a, or those for every GPU.
Kernels attention_forward(const KernelTable& table, const Gpu& gpu, const ModelSize& size,
                          bool hopper);
/// With the sums of rows before it.
Kernels attention_backward(const KernelTable& table, const Gpu& gpu, const ModelSize& size,
                           bool hopper);

const Row rate_titles = {"GPU",    "kernels", "head", "pass",  "together", "limit",
                         "tensor", "shared",  "mufu", "apart", "profile"};
/// FLOP/s of attention on each GPU.
std::vector<Row> rate_rows(const KernelTable& table, const std::vector<Gpu>& gpus);

/// Prints what a profile promises of attention that the kernels of this program do not reach even
/// by the estimate without overlap, by more than the 2 % to which rates are rounded; returns
/// whether there is none.
bool check_profiles(const KernelTable& table, const std::vector<Gpu>& gpus);

}  // namespace gptrain::test
