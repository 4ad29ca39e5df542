#include <type_traits>

#include "cpu/row_kernels_impl.h"
#include "cpu/vector8.h"

namespace gptrain::cpu {

template <class T>
RowKernels<T> avx2_row_kernels() {
    return row_kernels_of<Vec8, T>();
}

namespace {

template <class T>
RowKernels<T> choose_row_kernels() {
    if constexpr (std::is_same_v<T, Bf16>)
        if (__builtin_cpu_supports("avx512bf16")) return avx512_bf16_row_kernels();
    return __builtin_cpu_supports("avx512f") ? avx512_row_kernels<T>() : avx2_row_kernels<T>();
}

}  // namespace

template <class T>
const RowKernels<T>& row_kernels() {
    static const RowKernels<T> kernels = choose_row_kernels<T>();
    return kernels;
}

template RowKernels<float> avx2_row_kernels();
template RowKernels<Bf16> avx2_row_kernels();
template RowKernels<F16> avx2_row_kernels();
template const RowKernels<float>& row_kernels();
template const RowKernels<Bf16>& row_kernels();
template const RowKernels<F16>& row_kernels();

}  // namespace gptrain::cpu
