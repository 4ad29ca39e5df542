// An unrolled loop, for arrays that must stay in registers where the body is too long for the
// compiler to unroll it by itself.
#pragma once

#include "cuda/device/device.cuh"

namespace gptrain::cuda {

/// f(0), f(1), ..., f(n - 1), each with a compile-time index.
template <int n, class F>
__device__ inline void unrolled(const F& f) {
    if constexpr (n > 0) {
        unrolled<n - 1>(f);
        f(n - 1);
    }
}

}  // namespace gptrain::cuda
