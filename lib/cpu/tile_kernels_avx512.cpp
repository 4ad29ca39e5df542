#include "cpu/tile_kernels_impl.h"
#include "cpu/vector16.h"

namespace gptrain::cpu {

TileKernels avx512_tile_kernels() {
    return {.left = tile_itself,
            .left_rows = nullptr,
            .right_rows = nullptr,
            .multiply = multiply<Vec16, 6, 4>,
            .change = change_scores<Vec16>,
            .softmax = softmax<Vec16>,
            .softmax_gradient = softmax_gradient<Vec16>};
}

}  // namespace gptrain::cpu
