// Causal or bidirectional attention over sequences split across the ranks of cp:
//
//   o = dropout(softmax(q k^T / sqrt(D))) v  [B, S, N, D], keys of the whole sequence
//
// with the soft cap, ALiBi and sinks of AttentionForward and SinkForward.
// There are two methods:
//  - ring (Liu et al. 2023, "Ring Attention with Blockwise Transformers", arXiv 2310.01889): keys
//    and values go once around the ranks. Each rank attends to the part it holds while the next
//    part arrives, and merges the results. In backward, keys and values go around again, followed
//    by the sums of their gradients.
//  - all_to_all (Jacobs et al. 2023, "DeepSpeed Ulysses", arXiv 2309.14509): the ranks exchange
//    slices of the sequence for shares of the heads, attend to whole sequences, and exchange back.
// Gradients equal those of plain attention. The order of sums depends on sizes alone, and calls
// read nothing but their arguments, so the same call gives the same bits.
#pragma once

#include "backend/backend.h"
#include "comm/communicator.h"
#include "model/sequence.h"

namespace gptrain {

/// S counts the rows of this rank's slices (context_slices of the method), N and G its heads and
/// query groups. Unless noted, tensors are contiguous and have the compute dtype.
struct ContextForward {
    /// [B, S, N + 2 G, D]: q, k, v of each row, packed and rotated. all_to_all overwrites it with
    /// q, k, v of this rank's share of the heads over whole sequences, [B, S ranks, (N + 2 G) /
    /// ranks, D], which saves backward that exchange. With pieces it has them one after the other.
    Tensor qkv;
    Tensor o;  ///< [B, S, N, D], =
    /// fp32 [B, N, S], =: log of the sum of exp(scale q k) over all keys. all_to_all stores that of
    /// its share of the heads, [B, N / ranks, S ranks], with pieces one after the other as well.
    Tensor lse;
    /// Position of the first token of the sequence among queries; among keys it is 0. If it is the
    /// length of the sequence, every query sees all keys.
    std::int64_t first_query = 0;
    Tensor first_visible;     ///< i32 [B, S], positions in the sequence, or empty
    std::int64_t window = 0;  ///< as in AttentionForward
    Dropout dropout;          ///< of the probabilities; `rows` is ignored
    float softcap = 0;        ///< of the scores (AttentionForward)
    Alibi alibi = {};
    Tensor sinks = {};  ///< [N] (SinkForward), or empty
};

struct ContextBackward {
    ContextForward forward;  ///< as forward left it
    Tensor d_o;              ///< [B, S, N, D]
    Tensor dqkv;             ///< [B, S, N + 2 G, D], =: packed like forward's input qkv
    /// fp32 [N], +=: what this rank's rows, or its share of the heads, add; empty: not wanted
    Tensor dsinks = {};
};

/// The resources of a call. It returns its workspace at the end; how much it takes depends on sizes
/// alone.
struct ContextRanks {
    Backend& backend;
    Communicator& cp;
    Arena& workspace;
    /// Pieces of a rank's share of the heads, where the query groups divide into them: all_to_all
    /// exchanges one while it computes with another.
    std::int64_t pieces = 1;
};

/// Each rank sends its k and v to the `cp.size()` - 1 other ranks; backward also sends the fp32
/// sums of dk and dv as often.
void ring_attention_forward(const ContextForward& args, const ContextRanks& ranks);
void ring_attention_backward(const ContextBackward& args, const ContextRanks& ranks);

/// Each rank sends all of q, k, v and o except its own share; in backward, of o, d_o, dq, dk and
/// dv. N and G must be multiples of `cp.size()`.
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
