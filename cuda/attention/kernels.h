// Attention kernels for every device, one function per launch.
#pragma once

#include "cuda/attention/params.h"
#include "cuda/runtime/context.h"

namespace gptrain::cuda {

// On tensor cores from sm_80 on, after Dao, "FlashAttention-2" (arXiv 2307.08691): bf16 or fp16, D
// a multiple of 8 up to 256, rows and heads of all tensors aligned to 16 bytes. T is Bf16 or F16.

template <class T>
void tiled_attention_forward(const AttentionParams& params, const Stream& stream);

/// dq, in a separate kernel that recomputes the scores: each row of dq has one owner, which adds in
/// a fixed order and keeps partial sums out of memory. This takes 7 matrix multiplies in total
/// instead of 5. Adding to dq in order from the kernel of dk and dv would instead cost waiting, a
/// pass over 4 B N Sq D bytes per tile of keys, the memory for that, and a conversion kernel.
template <class T>
void tiled_attention_backward_queries(const AttentionParams& params,
                                      const AttentionGradients& gradients, const Stream& stream);
/// dk and dv; one block handles all heads of a group.
template <class T>
void tiled_attention_backward_keys(const AttentionParams& params,
                                   const AttentionGradients& gradients, const Stream& stream);

/// delta [B, N, Sq] = sum over D of d_o o, for any D and strides. T is float, Bf16 or F16.
template <class T>
void attention_delta(const AttentionParams& params, const AttentionGradients& gradients,
                     float* delta, const Stream& stream);

// fp32 arithmetic without tensor cores, for any D up to 256 and any strides. T is float, Bf16 or
// F16.

template <class T>
void plain_attention_forward(const AttentionParams& params, const Stream& stream);
template <class T>
void plain_attention_backward(const AttentionParams& params, const AttentionGradients& gradients,
                              const Stream& stream);

}  // namespace gptrain::cuda
