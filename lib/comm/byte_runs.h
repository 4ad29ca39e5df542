// Tensors as messages see them: runs of bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "comm/communicator.h"

namespace gptrain {

/// `count` runs of `bytes` bytes whose begins lie `stride` bytes apart.
struct ByteRuns {
    std::byte* data = nullptr;
    std::int64_t count = 0;
    std::int64_t bytes = 0;
    std::int64_t stride = 0;

    std::int64_t total() const { return count * bytes; }
    /// Whether the runs follow each other without gaps.
    bool dense() const { return count <= 1 || stride == bytes; }
    std::byte* operator[](std::int64_t run) const { return data + run * stride; }
};

/// One run for each index of the dims before `dim` (which may be negative, from the end): the
/// number and size of runs follow from the shape alone. The dims from `dim` on must be contiguous
/// and those before it lie evenly, as in a tensor or in a part of one along `dim`; else an Error
/// (bug).
ByteRuns runs_of(const Tensor& x, int dim);

/// The same runs of a part without gaps that begins at `data`.
inline ByteRuns dense_runs(std::byte* data, const ByteRuns& like) {
    return {data, like.count, like.bytes, like.bytes};
}

/// Part `index` of `parts` equal parts along `dim`; a remainder is an Error (bug).
Tensor part_of(const Tensor& x, int dim, int index, int parts);

/// The elements of a contiguous x that one of `parts` ranks sums up in an all_reduce; the last ones
/// may have fewer than the others, or none.
ByteRuns share_of(const Tensor& x, int index, int parts);

/// to = from, with the same number and size of runs. Memory that is the same stays as it is.
void copy_runs(const ByteRuns& to, const ByteRuns& from);

/// to = sum or maximum of `from`, element by element, in their order: ((x0 + x1) + x2) + ... All
/// have the same number and size of runs; `to` may be one of them. 16-bit floats are summed in fp32
/// and rounded once; integers wrap; a NaN stays one in a maximum. Other dtypes than fp32, bf16,
/// fp16, fp64, i32, i64 and u8 are an Error (bug).
void reduce_runs(const ByteRuns& to, std::span<const ByteRuns> from, DType dtype, Reduce how);

}  // namespace gptrain
