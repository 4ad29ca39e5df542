// Kernels without matrix instructions: how long their instructions take, compared with their bytes.
#pragma once

#include "kernel_times/bounds.h"

namespace gptrain::test {

/// Cross-entropy that moves `bytes`: it reads each row of logits, then writes its gradient from
/// what it has kept in shared memory.
Bounds cross_entropy(const KernelTable& table, const Gpu& gpu, double bytes);

const Row traffic_titles = {"instructions / bytes", "a100-80gb", "h100-sxm", "h200-sxm", "b200"};
/// The largest limit of their instructions as a share of the time of their bytes.
std::vector<Row> traffic_rows(const KernelTable& table, const std::vector<Gpu>& gpus);

}  // namespace gptrain::test
