#include "cpu/tile_kernels_impl.h"
#include "cpu/vector8.h"

namespace gptrain::cpu {

TileKernels avx2_tile_kernels() {
    return {.left = tile_itself,
            .left_rows = nullptr,
            .right_rows = nullptr,
            .multiply = multiply<Vec8, 6, 2>,
            .change = change_scores<Vec8>,
            .softmax = softmax<Vec8>,
            .softmax_gradient = softmax_gradient<Vec8>};
}

TileKernels tile_kernels(DType compute) {
    if (compute == DType::bf16 && __builtin_cpu_supports("avx512bf16"))
        return avx512_bf16_tile_kernels();
    return __builtin_cpu_supports("avx512f") ? avx512_tile_kernels() : avx2_tile_kernels();
}

}  // namespace gptrain::cpu
