#include "cuda/device/partial_sums.h"

#include "cuda/device/device.cuh"

namespace gptrain::cuda {
namespace {

/// Loads that a thread has in flight.
constexpr int unroll = 8;

template <int slices>
struct SliceSums {
    float sums[slices][warp_threads];
};

/// A block handles 32 columns. Each of its warps sums a slice: every `slices`-th part.
template <int slices>
__global__ void __launch_bounds__(slices* warp_threads) add_partial_sums_kernel(PartialSums parts) {
    auto& [sums] = shared_memory<SliceSums<slices>>();
    const std::int64_t column = std::int64_t{block_index().x} * warp_threads + lane_index();
    const bool valid = column < parts.columns;
    const std::int64_t totals = grid_blocks().y;
    const float* from = parts.data + block_index().y * parts.columns + column;
    const std::int64_t stride = totals * parts.columns;
    float sum = 0;
    for (std::int64_t part = warp_index(); valid && part < parts.count; part += slices * unroll) {
        float values[unroll] = {};
        for (int i = 0; i < unroll; ++i) {
            if (part + i * slices < parts.count)
                values[i] = load(from + (part + i * slices) * stride);
        }
        for (const float value : values)
            sum = sum + value;
    }
    sums[warp_index()][lane_index()] = sum;
    block_barrier();
    if (warp_index() != 0 || !valid) return;
    for (int slice = 1; slice < slices; ++slice)
        sum = sum + sums[slice][lane_index()];
    float* total = block_index().y == 0 ? parts.totals[0] : parts.totals[1];
    if (total != nullptr) total[column] = total[column] + sum;
}

template <int slices>
void launch_add_partial_sums(const PartialSums& parts, const Stream& stream) {
    launch(stream,
           {.blocks = div_ceil(parts.columns, warp_threads),
            .threads = slices * warp_threads,
            .shared_bytes = sizeof(SliceSums<slices>),
            .blocks_y = parts.totals[1] == nullptr ? 1 : 2},
           add_partial_sums_kernel<slices>, parts);
}

}  // namespace

void add_partial_sums(const PartialSums& parts, const Stream& stream) {
    if (parts.totals[0] == nullptr && parts.totals[1] == nullptr) return;
    if (parts.count <= unroll) {
        launch_add_partial_sums<1>(parts, stream);
    } else {
        launch_add_partial_sums<16>(parts, stream);
    }
}

}  // namespace gptrain::cuda
