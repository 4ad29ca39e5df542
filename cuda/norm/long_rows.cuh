// Backward pass of a norm for rows of any length and alignment.
#pragma once

#include "cuda/device/reduce.cuh"
#include "cuda/norm/backward_row.cuh"

namespace gptrain::cuda {

template <int threads>
struct LongRowShared {
    float gradients[threads / warp_threads];
    float projections[threads / warp_threads];
    float warp_amax[threads / warp_threads];
};

/// Adds the sums of a piece to the block's part; the block's first row overwrites it.
template <bool aligned, class T>
__device__ inline void add_to_part(const NormBackwardArgs<T>& args, int at,
                                   const PieceSums<T>& sums, bool begins) {
    float* dweight = part_of_block(args) + at;
    float* dbias = dweight + args.hidden;
    for (int i = 0; i < piece_width<T>; ++i) {
        if (!in_row<T, aligned>(at, i, args.hidden)) continue;
        dweight[i] = begins ? sums.dweight[i] : dweight[i] + sums.dweight[i];
        if (args.with_bias) dbias[i] = begins ? sums.dbias[i] : dbias[i] + sums.dbias[i];
    }
}

/// A block handles one row after another, reads each twice, and adds to its part in global memory.
template <class T, int threads, bool aligned, Beside beside>
__global__ void __launch_bounds__(threads, 512 / threads)
    long_row_kernel(NormBackwardArgs<T> args) {
    LongRowShared<threads>& shared = shared_memory<LongRowShared<threads>>();
    const FeatureDropout dropout(args.dropout);
    const int hidden = args.hidden;
    const TokenRange tokens = tokens_of_block(args.tokens);
    constexpr int step = threads * piece_width<T>;
    const int first = thread_index() * piece_width<T>;
    RunningAmax<beside == Beside::amax> amax;
    for (int token = tokens.begin; token < tokens.end; ++token) {
        NormBackwardRow<T> row(args, token);
        const auto with_piece = [&](int at, const auto& f) {
            return f(at, load_piece<aligned>(row.row_of(args.dn, args), at, hidden),
                     load_piece<aligned>(row.row_of(args.r, args), at, hidden),
                     load_piece<aligned>(args.weight, at, hidden));
        };
        RowSums of_row = {};
        const auto add = [&](int at, const auto& dn, const auto& r, const auto& weight) {
            PieceSums<T> sums = {};
            row.add(dn, r, weight, sums, of_row);
            add_to_part<aligned>(args, at, sums, token == tokens.begin);
        };
        for (int at = first; at < hidden; at += step)
            with_piece(at, add);
        of_row[0] = block_sum(of_row[0], shared.gradients);
        of_row[1] = block_sum(of_row[1], shared.projections);
        row.set_row_sums(args, of_row);
        const auto finish = [&](int at, const auto& dn, const auto& r, const auto& weight) {
            Vec16<T> dr = {};
            if (args.accumulate) dr = load_piece<aligned>(row.row_of(args.dr, args), at, hidden);
            return row.template store_gradient<aligned>(args, dropout, at,
                                                        row.gradient(dn, r, weight, dr), amax);
        };
        // All lanes of a warp take as many turns.
        for (int begin = 0; begin < hidden; begin += step) {
            const int at = begin + first;
            Vec16<T> dy = {};
            if (at < hidden) dy = with_piece(at, finish);
            if constexpr (beside == Beside::fp8_rows)
                args.dy8.store_piece(token, at, at < hidden, dy);
        }
        block_barrier();
    }
    amax.merge(shared.warp_amax, args.amax);
}

}  // namespace gptrain::cuda
