// The kernels of attention for every device, one function for each launch.
#pragma once

#include "cuda/attention/params.h"
#include "cuda/runtime/context.h"

namespace gptrain::cuda {

// Products on tensor cores from sm_80 on, after Dao, "FlashAttention-2" (arXiv 2307.08691): bf16 or
// fp16, D a multiple of 8 up to 256, rows and heads of all tensors aligned to 16 bytes.
// T is Bf16 or F16.

template <class T>
void tiled_attention_forward(const AttentionParams& params, const Stream& stream);

/// dq. A kernel of its own, which computes the scores again: so nobody but one block adds to a row
/// of dq, in one order, and nothing of it is ever in memory as a partial sum. It costs 7 products
/// in all instead of 5; adding in order from the kernel of dk and dv would cost waiting, a pass
/// over 4 B N Sq D bytes for each tile of keys, that memory, and a kernel that converts.
template <class T>
void tiled_attention_backward_queries(const AttentionParams& params,
                                      const AttentionGradients& gradients, const Stream& stream);
/// dk and dv, of all heads of a group by one block.
template <class T>
void tiled_attention_backward_keys(const AttentionParams& params,
                                   const AttentionGradients& gradients, const Stream& stream);

/// delta [B, N, Sq] = sum over D of d_o o; any D and strides. T is float, Bf16 or F16.
template <class T>
void attention_delta(const AttentionParams& params, const AttentionGradients& gradients,
                     float* delta, const Stream& stream);

// fp32 arithmetic on the usual units, for any D up to 256 and any strides. T is float, Bf16 or F16.

template <class T>
void plain_attention_forward(const AttentionParams& params, const Stream& stream);
template <class T>
void plain_attention_backward(const AttentionParams& params, const AttentionGradients& gradients,
                              const Stream& stream);

}  // namespace gptrain::cuda
