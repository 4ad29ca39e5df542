// The sum of a piece of the residual stream and of a branch.
#pragma once

#include "cuda/device/dropout_mask.cuh"
#include "cuda/device/pieces.cuh"

namespace gptrain::cuda {

/// round(r + dropout(y)) of the piece at `feature` of the row `where`.
template <class T>
__device__ inline Vec16<T> residual_sum(const Vec16<T>& r, const Vec16<T>& y,
                                        const FeatureDropout& dropout,
                                        const FeatureDropout::Row& where, int feature) {
    float stream[piece_width<T>];
    float branch[piece_width<T>];
    widen(r, stream);
    widen(y, branch);
    dropout.drop(where, feature, branch);
    for (int i = 0; i < piece_width<T>; ++i)
        stream[i] = stream[i] + branch[i];
    return narrow_piece<T>(stream);
}

}  // namespace gptrain::cuda
