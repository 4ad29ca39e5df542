// Causal attention over sequences that are split over the ranks of cp, by either method:
//  - ring (Liu et al. 2023, "Ring Attention with Blockwise Transformers", arXiv 2310.01889): keys
//    and values go once around the ranks, each of which attends to what it has at the moment while
//    the next arrives, and merges the results. In backward they go around again, and the sums of
//    their gradients behind them.
//  - all_to_all (Jacobs et al. 2023, "DeepSpeed Ulysses", arXiv 2309.14509): the ranks exchange
//    slices of the sequence for shares of the heads, attend to whole sequences, and exchange back.
// Gradients are those of attention itself, and sums are made in an order that depends on sizes
// alone. Nothing but the arguments is read: calling it again gives the same bits.
#pragma once

#include "backend/backend.h"
#include "comm/communicator.h"
#include "model/sequence.h"

namespace gptrain {

/// S counts the rows of this rank's slices (context_slices of this method), N and G the heads and
/// groups that are here. All tensors are contiguous and of the compute dtype where nothing is said.
struct ContextForward {
    /// [B, S, N + 2 G, D]: q, k, v of each row side by side, rotated. all_to_all writes it: it then
    /// holds q, k, v of the whole sequences for this rank's share of the heads,
    /// [B, S ranks, (N + 2 G) / ranks, D], which spares backward that exchange.
    Tensor qkv;
    Tensor o;  ///< [B, S, N, D], =
    /// fp32 [B, N, S], =: log of the sum of exp(scale q k) over all keys. all_to_all keeps here
    /// that of its share of the heads, [B, N / ranks, S ranks].
    Tensor lse;
    Tensor first_visible;  ///< i32 [B, S], positions in the sequence; or empty
    Dropout dropout;       ///< of the probabilities; `rows` is not read
};

struct ContextBackward {
    ContextForward forward;  ///< as forward left them
    Tensor d_o;              ///< [B, S, N, D]
    Tensor dqkv;             ///< [B, S, N + 2 G, D], =: as qkv was given to forward
};

/// What it works with. The memory in the workspace is given back at the end, and how much it is
/// depends on sizes alone.
struct ContextRanks {
    Backend& backend;
    Communicator& cp;
    Arena& workspace;
};

/// Each rank sends its k and v to `cp.size()` - 1 others, in backward also as many times the fp32
/// sums of dk and dv.
void ring_attention_forward(const ContextForward& args, const ContextRanks& ranks);
void ring_attention_backward(const ContextBackward& args, const ContextRanks& ranks);

/// Each rank sends all but its own share of q, k, v and of o; in backward of o, d_o, dq, dk and dv.
/// N and G must be multiples of `cp.size()`.
void all_to_all_attention_forward(const ContextForward& args, const ContextRanks& ranks);
void all_to_all_attention_backward(const ContextBackward& args, const ContextRanks& ranks);

inline void context_attention_forward(ContextMethod method, const ContextForward& args,
                                      const ContextRanks& ranks) {
    method == ContextMethod::ring ? ring_attention_forward(args, ranks)
                                  : all_to_all_attention_forward(args, ranks);
}
inline void context_attention_backward(ContextMethod method, const ContextBackward& args,
                                       const ContextRanks& ranks) {
    method == ContextMethod::ring ? ring_attention_backward(args, ranks)
                                  : all_to_all_attention_backward(args, ranks);
}

}  // namespace gptrain
