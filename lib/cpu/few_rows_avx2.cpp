#include "cpu/few_rows_impl.h"
#include "cpu/vector8.h"

namespace gptrain::cpu {

template <class T>
FewRowsKernels<T> avx2_few_rows_kernels() {
    return few_rows_kernels_of<Vec8, T>();
}

template <class T>
const FewRowsKernels<T>& few_rows_kernels() {
    static const FewRowsKernels<T> kernels = __builtin_cpu_supports("avx512f")
                                                 ? avx512_few_rows_kernels<T>()
                                                 : avx2_few_rows_kernels<T>();
    return kernels;
}

template FewRowsKernels<float> avx2_few_rows_kernels();
template FewRowsKernels<Bf16> avx2_few_rows_kernels();
template FewRowsKernels<F16> avx2_few_rows_kernels();
template const FewRowsKernels<float>& few_rows_kernels();
template const FewRowsKernels<Bf16>& few_rows_kernels();
template const FewRowsKernels<F16>& few_rows_kernels();

}  // namespace gptrain::cpu
