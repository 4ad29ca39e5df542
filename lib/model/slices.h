// Sequence parallelism (Korthikanti et al. 2022, arXiv 2205.05198): between linear layers each of
// the t ranks of tp holds a slice of every sequence:
//
//   whole = all_gather(slice)     [B S / t, W] -> [B S, W]
//   slice = reduce_scatter(part)  [B S, W] -> [B S / t, W]
#pragma once

#include "model/context.h"

namespace gptrain {

/// whole [B S, W] = all ranks' slices [B S / t, W].
Pending gather_slices(const ModelContext& context, const Tensor& whole, const Tensor& slice);
/// slice = this rank's slice of the sum of `part` over tp.
Pending sum_to_slice(const ModelContext& context, const Tensor& slice, const Tensor& part);

/// All rows of x: gathered in the workspace with sequence parallelism, else x itself.
Tensor gather_rows(const ModelContext& context, const Tensor& x);
WithAmax gather_rows(const ModelContext& context, const WithAmax& x);
/// The amax over all rows of x; empty if this rank knows that of its slice only.
Tensor amax_of_all_rows(const ModelContext& context, const WithAmax& x);

/// Memory for all rows of x: in the workspace with sequence parallelism, else x itself.
Tensor allocate_whole(const ModelContext& context, const Tensor& x);
/// x = the sum of `part` (allocated by allocate_whole(x)) over tp, or this rank's slice of that
/// sum.
Pending reduce_parts(const ModelContext& context, const Tensor& x, const Tensor& part);

}  // namespace gptrain
