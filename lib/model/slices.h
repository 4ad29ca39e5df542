// Sequence parallelism (Korthikanti et al. 2022, arXiv 2205.05198): between linear layers each of
// the t ranks of tp holds a slice of every sequence:
//
//   whole = all_gather(slice)     [B S / t, W] -> [B S, W]
//   slice = reduce_scatter(part)  [B S, W] -> [B S / t, W]
//
// In P pieces (RunPlan::tensor_pieces), piece i of the whole rows is gathered from piece i of each
// slice: both are consecutive rows. With one sequence (B = 1) a rank therefore holds a slice of
// each of P stripes; with several a piece is B / P of them.
//
// By ranks (RunPlan::pieces_by_rank, B = 1), piece i is the slices of ranks i t / P to
// (i + 1) t / P - 1, which ranks send to each other one by one. A rank begins with the piece that
// has its own slice where it gathers, and ends with it where it sums.
#pragma once

#include <vector>

#include "model/context.h"

namespace gptrain {

/// Piece i of the rows of x, or empty if x is.
Tensor rows_of_piece(const ModelContext& context, const Tensor& x, std::int64_t i);
/// The same by rows, with the scale.
Fp8Matrix rows_of_piece(const ModelContext& context, const Fp8Matrix& x, std::int64_t i);

/// whole [B S, W] = all ranks' slices [B S / t, W].
Pending gather_slices(const ModelContext& context, const Tensor& whole, const Tensor& slice);

/// All rows of x, on their way to the workspace in pieces with sequence parallelism, else x itself.
class ArrivingRows {
public:
    ArrivingRows(const ModelContext& context, const Tensor& x);
    const Tensor& whole() const { return whole_; }
    /// The pieces in the order in which they arrive.
    std::vector<std::int64_t> order() const;
    /// Waits for piece i of the rows.
    void wait(std::int64_t i);
    /// Waits for all rows.
    void wait();

private:
    const ModelContext& context_;
    Tensor whole_;
    std::vector<std::vector<Pending>> pieces_;
};

/// All rows of x: gathered in the workspace with sequence parallelism, else x itself.
Tensor gather_rows(const ModelContext& context, const Tensor& x);
/// The amax over all rows of x; empty if this rank knows only its slice's amax.
Tensor amax_of_all_rows(const ModelContext& context, const LinearOperand& x);

/// Memory for all rows of x: in the workspace with sequence parallelism, else x itself.
Tensor allocate_whole(const ModelContext& context, const Tensor& x);
/// x = the sum of `part` (allocated by allocate_whole(x)) over tp, or this rank's slice of that
/// sum.
Pending reduce_parts(const ModelContext& context, const Tensor& x, const Tensor& part);

/// The same in pieces, each of which leaves once it has been computed.
class LeavingRows {
public:
    LeavingRows(const ModelContext& context, const Tensor& x, const Tensor& part);
    /// The pieces in the order in which to compute them.
    std::vector<std::int64_t> order() const;
    /// Piece i of `part` has been computed.
    void send(std::int64_t i);
    /// Waits for the sum, once all pieces have been sent.
    void wait();

private:
    const ModelContext& context_;
    Tensor x_;
    Tensor part_;
    Tensor arrived_;  ///< [t, elements of x]: by ranks, what each of them adds
    std::vector<Pending> sums_;
};

}  // namespace gptrain
