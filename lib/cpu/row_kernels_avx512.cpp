#include "cpu/row_kernels_impl.h"
#include "cpu/vector16.h"

namespace gptrain::cpu {

template <class T>
RowKernels<T> avx512_row_kernels() {
    return row_kernels_of<Vec16, T>();
}

template RowKernels<float> avx512_row_kernels();
template RowKernels<Bf16> avx512_row_kernels();
template RowKernels<F16> avx512_row_kernels();

}  // namespace gptrain::cpu
