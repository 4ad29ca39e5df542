// The arguments of attention as its kernels see them: plain values, passed by value to a launch.
#pragma once

#include <cstdint>

#include "backend/ops.h"
#include "cuda/device/device.cuh"
#include "cuda/device/dropout_mask.cuh"

namespace gptrain::cuda {

/// The largest D that kernels support.
constexpr int max_head_dim = 256;

/// A tensor [B, rows, heads, D]; D is contiguous, strides are in elements.
struct HeadTensor {
    std::byte* data = nullptr;
    std::int64_t sequence_stride = 0;
    std::int64_t row_stride = 0;
    std::int64_t head_stride = 0;

    HeadTensor() = default;
    explicit HeadTensor(const Tensor& tensor)
        : data(tensor.data()),
          sequence_stride(tensor.stride(0)),
          row_stride(tensor.stride(1)),
          head_stride(tensor.stride(2)) {}

    /// Row 0 of one head of one sequence.
    template <class T>
    __host__ __device__ T* head(std::int64_t sequence, std::int64_t head) const {
        return reinterpret_cast<T*>(data) + sequence * sequence_stride + head * head_stride;
    }
};

/// True if every row of every head is aligned to 16 bytes.
template <class T>
bool aligned_16(const HeadTensor& tensor) {
    constexpr std::int64_t elements = 16 / sizeof(T);
    return reinterpret_cast<std::uintptr_t>(tensor.data) % 16 == 0 &&
           tensor.sequence_stride % elements == 0 && tensor.row_stride % elements == 0 &&
           tensor.head_stride % elements == 0;
}

/// Query i sees key j (both by index) if j <= i + diagonal and, if first_visible is given, j +
/// k_begin >= first_visible[b Sq + i].
struct AttentionParams {
    HeadTensor q;                                 ///< [B, Sq, N, D]
    HeadTensor k;                                 ///< [B, Sk, G, D]
    HeadTensor v;                                 ///< as k
    HeadTensor o;                                 ///< [B, Sq, N, D]
    float* lse = nullptr;                         ///< [B, N, Sq]
    const std::int32_t* first_visible = nullptr;  ///< [B, Sq] or null
    int sequences = 0;                            ///< B
    int queries = 0;                              ///< Sq
    int keys = 0;                                 ///< Sk
    int heads = 0;                                ///< N
    int groups = 0;                               ///< G
    int group_heads = 0;                          ///< N / G
    int head_dim = 0;                             ///< D
    int diagonal = 0;                             ///< q_begin - k_begin, within [-Sq, Sk]
    int q_begin = 0;                              ///< positions fit in 31 bits
    int k_begin = 0;
    float scale = 0;  ///< 1 / sqrt(D)
    /// scale log2(e): exp(scale x) = 2^(scale_log2 x); log2(e) if scores are changed, which then
    /// are scaled already
    float scale_log2 = 0;
    DropoutParams dropout;
    float softcap = 0;  ///< 0: none
    float inverse_softcap = 0;
    Alibi alibi;

    bool changes_scores() const { return softcap > 0 || alibi.on(); }

    __host__ __device__ int heads_per_group() const { return group_heads; }
    __host__ __device__ int group_of(int head) const { return head / group_heads; }
    /// Index of a head's first element in lse and delta.
    __host__ __device__ std::int64_t lse_row(int sequence, int head) const {
        return (static_cast<std::int64_t>(sequence) * heads + head) * queries;
    }
};

struct AttentionGradients {
    HeadTensor d_o;  ///< [B, Sq, N, D]
    HeadTensor dq;   ///< as q
    HeadTensor dk;   ///< as k
    HeadTensor dv;   ///< as k
    /// fp32 [B, N, Sq]: sum over D of d_o o
    const float* delta = nullptr;
    bool accumulate = false;  ///< += in fp32 dq, dk, dv; otherwise = in the compute dtype
};

/// Check the contract of the op and convert its arguments.
AttentionParams attention_params(const AttentionForward& args);
AttentionGradients attention_gradients(const AttentionBackward& args, const float* delta);

}  // namespace gptrain::cuda
