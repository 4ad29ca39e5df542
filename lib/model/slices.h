// Sequence parallelism (Korthikanti et al. 2022, arXiv 2205.05198): between the linear layers the
// ranks of tp share the rows of a microbatch, each with its slice of every sequence.
#pragma once

#include "model/context.h"

namespace gptrain {

/// x [B S, W] of all slices from one's own [B S / t, W].
Pending gather_slices(const ModelContext& context, const Tensor& whole, const Tensor& slice);
/// One's own slice of the sum over tp.
Pending sum_to_slice(const ModelContext& context, const Tensor& slice, const Tensor& part);

/// x where every rank has all rows, else all rows in the workspace.
Tensor whole_rows(const ModelContext& context, const Tensor& x);
Measured whole_rows(const ModelContext& context, const Measured& x);
/// The maximum of all rows of x: not known where this rank knows that of a slice.
Tensor maximum_of_whole(const ModelContext& context, const Measured& x);

/// Memory for all rows of x: x itself where it has them, else in the workspace.
Tensor memory_of_whole(const ModelContext& context, const Tensor& x);
/// x = the sum over tp of the ranks' `part`s (memory_of_whole(x)), or this rank's slice of it.
Pending sum_parts(const ModelContext& context, const Tensor& x, const Tensor& part);

}  // namespace gptrain
