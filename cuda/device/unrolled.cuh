// A loop that is written out: for arrays that are to be registers, in bodies so long that the
// compiler would not do it by itself.
#pragma once

namespace gptrain::cuda {

/// f(0), f(1), ..., f(n - 1), each with the index as a constant.
template <int n, class F>
__device__ inline void unrolled(const F& f) {
    if constexpr (n > 0) {
        unrolled<n - 1>(f);
        f(n - 1);
    }
}

}  // namespace gptrain::cuda
