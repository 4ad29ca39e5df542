#include "cpu/tile_kernels_impl.h"
#include "cpu/vector16.h"

namespace gptrain::cpu {

TileKernels avx512_tile_kernels() {
    return kernels_for<Vec16, 6, 4>();
}

}  // namespace gptrain::cpu
