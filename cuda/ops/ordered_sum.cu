#include "cuda/ops/ordered_sum.h"

#include "cuda/device/reduce.cuh"

namespace gptrain::cuda {
namespace {

constexpr int block_size = 1024;

struct WarpSums {
    double sums[block_size / warp_threads];
};

__global__ void __launch_bounds__(block_size)
    add_in_order_kernel(const double* parts, std::int64_t count, double* total) {
    double sum = 0;
    for (std::int64_t i = thread_index(); i < count; i += block_size)
        sum = sum + parts[i];
    sum = block_sum(sum, shared_memory<WarpSums>().sums);
    if (thread_index() == 0) *total = *total + sum;
}

}  // namespace

void add_in_order(const double* parts, std::int64_t count, double* total, const Stream& stream) {
    launch(stream, {.blocks = 1, .threads = block_size, .shared_bytes = sizeof(WarpSums)},
           add_in_order_kernel, parts, count, total);
}

}  // namespace gptrain::cuda
