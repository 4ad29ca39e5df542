// The backward pass of a norm for one row and for one piece of it.
#pragma once

#include "cuda/device/amax.cuh"
#include "cuda/device/dropout_mask.cuh"
#include "cuda/device/fp8_rows.cuh"
#include "cuda/device/pieces.cuh"

namespace gptrain::cuda {

template <class T>
struct NormBackwardArgs {
    const T* dn;
    const T* r;
    const T* weight;
    const float* mean;  ///< null for rmsnorm
    const float* rstd;
    T* dr;
    T* dy;         ///< may be null
    float* amax;   ///< amax of dy or, without dy, of dr, if requested
    Fp8Rows dy8;   ///< the same, if requested
    float* parts;  ///< [parts][dweight and, with bias, dbias][H]
    bool with_bias;
    bool accumulate;
    int tokens;
    int hidden;
    int seq_length;
    float inverse_hidden;  ///< 1 / H
    int group;             ///< threads per row
    DropoutParams dropout;
};

/// The rows of a block.
struct TokenRange {
    int begin;
    int end;
};
__device__ inline TokenRange tokens_of_block(int tokens) {
    const std::int64_t block = block_index().x;
    const std::int64_t blocks = grid_blocks().x;
    return {static_cast<int>(tokens * block / blocks),
            static_cast<int>(tokens * (block + 1) / blocks)};
}

/// This block's sums over its rows, [dweight and, with bias, dbias][H].
template <class T>
__device__ inline float* part_of_block(const NormBackwardArgs<T>& args) {
    return args.parts + std::int64_t{block_index().x} * (args.with_bias ? 2 : 1) * args.hidden;
}

/// Sums over a row: of dn weight, and of dn weight times the normalized input.
using RowSums = Vec<float, 2>;

/// One thread's contribution to dweight and dbias for one piece.
template <class T>
struct PieceSums {
    float dweight[piece_width<T>];
    float dbias[piece_width<T>];
};

template <class T>
class NormBackwardRow {
public:
    __device__ NormBackwardRow(const NormBackwardArgs<T>& args, int token)
        : token_(token),
          mean_(args.mean == nullptr ? 0.0f : load(args.mean + token)),
          rstd_(load(args.rstd + token)) {}

    /// Element 0 of the row in `tensor`.
    template <class E>
    __device__ E* row_of(E* tensor, const NormBackwardArgs<T>& args) const {
        return tensor + std::int64_t{token_} * args.hidden;
    }

    /// Adds a piece to the parameter sums and to the row sums.
    __device__ void add(const Vec16<T>& dn, const Vec16<T>& r, const Vec16<T>& weight,
                        PieceSums<T>& sums, RowSums& of_row) const {
        float g[piece_width<T>];
        float x[piece_width<T>];
        float w[piece_width<T>];
        widen(dn, g);
        widen(r, x);
        widen(weight, w);
        for (int i = 0; i < piece_width<T>; ++i) {
            x[i] = (x[i] - mean_) * rstd_;
            w[i] = g[i] * w[i];
            of_row[0] = of_row[0] + w[i];
            of_row[1] = fma(w[i], x[i], of_row[1]);
            sums.dweight[i] = fma(g[i], x[i], sums.dweight[i]);
            sums.dbias[i] = sums.dbias[i] + g[i];
        }
    }

    /// Sets the sums of the whole row; call it before `gradient`.
    __device__ void set_row_sums(const NormBackwardArgs<T>& args, const RowSums& of_row) {
        shift_ = args.mean == nullptr ? 0.0f : of_row[0] * args.inverse_hidden;
        slope_ = rstd_ * rstd_ * (of_row[1] * args.inverse_hidden);
    }

    /// Returns `previous` plus dr of one piece: rstd (g - mean(g) - x mean(g x)), where g = dn
    /// weight, x is the normalized input, and the means are over the row.
    __device__ Vec16<T> gradient(const Vec16<T>& dn, const Vec16<T>& r, const Vec16<T>& weight,
                                 const Vec16<T>& previous) const {
        float g[piece_width<T>];
        float x[piece_width<T>];
        float w[piece_width<T>];
        float dr[piece_width<T>];
        widen(dn, g);
        widen(r, x);
        widen(weight, w);
        widen(previous, dr);
        for (int i = 0; i < piece_width<T>; ++i) {
            dr[i] = fma(rstd_, fma(g[i], w[i], -shift_), dr[i]);
            dr[i] = fma(mean_ - x[i], slope_, dr[i]);
        }
        return narrow_piece<T>(dr);
    }

    /// Writes dr and, computed from the stored dr, dy of the piece at `at`. Adds dy or, without
    /// it, dr to the amax, and returns it.
    template <bool aligned, bool with_amax>
    __device__ Vec16<T> store_gradient(const NormBackwardArgs<T>& args,
                                       const FeatureDropout& dropout, int at, const Vec16<T>& dr,
                                       RunningAmax<with_amax>& amax) const {
        store_piece<aligned>(row_of(args.dr, args), at, args.hidden, dr);
        Vec16<T> dy = dr;
        if (args.dy != nullptr) {
            float x[piece_width<T>];
            widen(dr, x);
            dropout.drop(dropout.row(token_, args.seq_length), at, x);
            dy = narrow_piece<T>(x);
            store_piece<aligned>(row_of(args.dy, args), at, args.hidden, dy);
        }
        amax.template add<aligned>(dy, at, args.hidden);
        return dy;
    }

private:
    int token_;
    float mean_;
    float rstd_;
    float shift_ = 0;
    float slope_ = 0;
};

}  // namespace gptrain::cuda
