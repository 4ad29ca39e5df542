#include "cpu/few_rows_impl.h"
#include "cpu/vector16.h"

namespace gptrain::cpu {

template <class T>
FewRowsKernels<T> avx512_few_rows_kernels() {
    return few_rows_kernels_of<Vec16, T>();
}

template FewRowsKernels<float> avx512_few_rows_kernels();
template FewRowsKernels<Bf16> avx512_few_rows_kernels();
template FewRowsKernels<F16> avx512_few_rows_kernels();

}  // namespace gptrain::cpu
