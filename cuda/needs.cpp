#include "cuda/needs.h"

#include <algorithm>

#include "cuda/attention/portable.h"
#include "cuda/attention/sm90/attention.h"
#include "cuda/attention/sm90/plan.h"
#include "cuda/gemm/gemms.h"
#include "cuda/norm/norm.h"
#include "cuda/norm/scratch_sizes.h"
#include "cuda/ops/attention.h"
#include "cuda/ops/checksum.h"
#include "cuda/ops/cross_entropy.h"
#include "cuda/ops/embedding.h"
#include "cuda/ops/expert_rows.h"
#include "cuda/ops/fp8.h"
#include "cuda/ops/linear.h"
#include "cuda/ops/linear_bias.h"
#include "cuda/ops/optimizer.h"
#include "cuda/ops/router_losses.h"
#include "cuda/ops/row_sums.h"
#include "cuda/ops/scratch_sizes.h"
#include "cuda/runtime/staging.h"

namespace gptrain::cuda {

std::int64_t linear_scratch_bytes(const OpLimits& limits) {
    const std::int64_t tokens = limits.sequences * limits.seq_length;
    const std::int64_t all_sums = round_up(tokens * limits.widest * 4, Arena::alignment);
    const bool sums = limits.compute != DType::f32;
    return Gemms::workspace_bytes + std::max(sums ? std::min(linear_sums_bytes, all_sums) : 0,
                                             Scratch::bytes_of<float>(limits.widest));
}

std::int64_t bias_scratch_bytes(const OpLimits& limits) {
    // Many column strips have few parts each: either there is one part, or the strips of all parts
    // together are at most the desired number of blocks.
    constexpr std::int64_t widest_strip = bias_strip_bytes / 2;
    const std::int64_t parts = div_ceil(limits.sequences * limits.seq_length, bias_part_rows);
    const std::int64_t elements =
        std::min(parts * limits.widest, std::max(bias_blocks * widest_strip, limits.widest));
    return Scratch::bytes_of<float>(elements);
}

std::int64_t fp8_scratch_bytes(const OpLimits& limits) {
    const std::int64_t parts = div_ceil(limits.sequences * limits.seq_length, fp8_tile);
    return Scratch::bytes_of<float>(parts * limits.widest);
}

std::int64_t norm_scratch_bytes(const OpLimits& limits) {
    const std::int64_t tokens = limits.sequences * limits.seq_length;
    const std::int64_t rows =
        std::min(max_norm_parts, div_ceil(tokens, norm_group_rows)) * 2 * limits.hidden;
    const std::int64_t heads = head_norm_parts(tokens * limits.heads) * limits.head_dim;
    const std::int64_t shared = row_norm_parts(tokens) * limits.shared_norm;
    return Scratch::bytes_of<float>(std::max({rows, heads, shared}));
}

namespace {

std::int64_t sort_by_row_scratch_bytes(std::int64_t tokens) {
    return 2 * Scratch::bytes_of<int>(tokens) +
           Scratch::bytes_of<unsigned>(row_order_counts(tokens));
}

std::int64_t add_rows_scratch_bytes(std::int64_t tokens, std::int64_t hidden) {
    const std::int64_t chunks = div_ceil(tokens, row_sums_chunk);
    return sort_by_row_scratch_bytes(tokens) + 2 * Scratch::bytes_of<float>(chunks * hidden) +
           2 * Scratch::bytes_of<int>(chunks);
}

}  // namespace

std::int64_t embedding_scratch_bytes(const OpLimits& limits) {
    return add_rows_scratch_bytes(limits.sequences * limits.seq_length, limits.hidden);
}

std::int64_t cross_entropy_scratch_bytes(const OpLimits& limits) {
    return Scratch::bytes_of<double>(
        std::max(limits.head_rows, limits.sequences * limits.seq_length));
}

std::int64_t router_scratch_bytes(const OpLimits& limits) {
    if (limits.experts == 0) return 0;
    // Sums of more than one part: each group has more tokens than a part.
    const std::int64_t tokens = limits.sequences * limits.seq_length;
    const std::int64_t parts = std::min(router_blocks, 2 * tokens / router_part_tokens + 1);
    return Scratch::bytes_of<double>(std::max(parts * (2 * limits.experts + 1), tokens));
}

std::int64_t expert_rows_scratch_bytes(const OpLimits& limits) {
    if (limits.experts == 0) return 0;
    // PlaceRows keeps where the slots of each rank begin.
    return sort_by_row_scratch_bytes(limits.expert_slots) +
           Scratch::bytes_of<int>(limits.experts + 1);
}

std::int64_t optimizer_scratch_bytes() {
    return std::max(Scratch::bytes_of<double>(table_blocks),
                    round_up(update_bytes, Arena::alignment));
}

std::int64_t checksum_scratch_bytes() {
    return Scratch::bytes_of<std::uint64_t>(checksum_blocks);
}

std::int64_t portable_attention_scratch_bytes(const OpLimits& limits) {
    return Scratch::bytes_of<float>(limits.sequences * limits.heads * limits.seq_length);
}

std::int64_t sm90::attention_scratch_bytes(const OpLimits& limits) {
    if (limits.compute != DType::bf16 || (limits.head_dim != 64 && limits.head_dim != 128))
        return 0;
    // An op may have a share of the heads (all_to_all), for which the plan may choose to keep more
    // sums than for all of them.
    std::int64_t most = 0;
    for (std::int64_t shares = 1; shares <= limits.groups; ++shares) {
        if (limits.groups % shares != 0) continue;
        const std::int64_t heads = limits.heads / shares;
        const BackwardPlan plan(limits.sequences, limits.seq_length, heads, limits.groups / shares,
                                limits.head_dim);
        most = std::max(most, plan.bytes(limits.sequences * heads));
    }
    return most;
}

std::int64_t attention_scratch_bytes(const OpLimits& limits) {
    return std::max(portable_attention_scratch_bytes(limits),
                    sm90::attention_scratch_bytes(limits));
}

namespace {

/// Staging for uploads, plus scratch memory for ops.
std::int64_t scratch_bytes(const OpLimits& limits) {
    const std::int64_t of_ops = std::max(
        {linear_scratch_bytes(limits), bias_scratch_bytes(limits), fp8_scratch_bytes(limits),
         norm_scratch_bytes(limits), embedding_scratch_bytes(limits),
         attention_scratch_bytes(limits), cross_entropy_scratch_bytes(limits),
         router_scratch_bytes(limits), expert_rows_scratch_bytes(limits), optimizer_scratch_bytes(),
         checksum_scratch_bytes()});
    return Staging::all_bytes + of_ops;
}

}  // namespace

BackendMemory backend_memory() {
    return {.scratch = scratch_bytes,
            .staging = Staging::all_bytes,
            .reserve = std::int64_t{1} << 30,
            .row_alignment = 128};
}

}  // namespace gptrain::cuda
