#include "cpu/tile_kernels_impl.h"
#include "cpu/vector8.h"

namespace gptrain::cpu {

TileKernels avx2_tile_kernels() {
    return kernels_for<Vec8, 6, 2>();
}

TileKernels tile_kernels() {
    return __builtin_cpu_supports("avx512f") ? avx512_tile_kernels() : avx2_tile_kernels();
}

}  // namespace gptrain::cpu
