// Row kernels that round to bf16 by an instruction (AVX512_BF16).
#include "cpu/row_kernels_impl.h"
#include "cpu/vector16.h"

namespace gptrain::cpu {

RowKernels<Bf16> avx512_bf16_row_kernels() {
    return row_kernels_of<Vec16, Bf16>();
}

}  // namespace gptrain::cpu
