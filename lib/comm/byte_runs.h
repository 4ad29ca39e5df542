// Tensors as messages see them: runs of bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "comm/communicator.h"

namespace gptrain {

/// `count` runs of `bytes` bytes, whose starts are `stride` bytes apart.
struct ByteRuns {
    std::byte* data = nullptr;
    std::int64_t count = 0;
    std::int64_t bytes = 0;
    std::int64_t stride = 0;

    std::int64_t total() const { return count * bytes; }
    /// True if the runs follow each other without gaps.
    bool contiguous() const { return count <= 1 || stride == bytes; }
    std::byte* operator[](std::int64_t run) const { return data + run * stride; }
};

/// One run for each index of the dims before `dim` (negative: counted from the end). The number and
/// size of runs depend on the shape only. The dims from `dim` on must be contiguous and those
/// before it evenly strided, as in a tensor or a part of one along `dim`; otherwise an Error (bug).
ByteRuns runs_of(const Tensor& x, int dim);
/// A contiguous tensor as one run.
ByteRuns run_of(const Tensor& x);

/// The same runs, stored without gaps from `data` on.
inline ByteRuns contiguous_runs(std::byte* data, const ByteRuns& like) {
    return {data, like.count, like.bytes, like.bytes};
}

/// Part `index` of `parts` equal parts along `dim`. A remainder is an Error (bug).
Tensor part_of(const Tensor& x, int dim, int index, int parts);

/// The elements of a contiguous x that rank `index` of `parts` sums in an all_reduce. The last
/// ranks may have fewer, or none.
ByteRuns share_of(const Tensor& x, int index, int parts);

/// to = from, with the same number and size of runs. Does nothing if both are the same memory.
void copy_runs(const ByteRuns& to, const ByteRuns& from);

/// to = sum or maximum of `from`, element by element, in order: ((x0 + x1) + x2) + ... All have the
/// same number and size of runs; `to` may be one of `from`. 16-bit floats are summed in fp32 and
/// rounded once; integers wrap; a maximum propagates NaN. Dtypes other than fp32, bf16, fp16, fp64,
/// i32, i64 and u8 are an Error (bug).
void reduce_runs(const ByteRuns& to, std::span<const ByteRuns> from, DType dtype, Reduce reduce);

}  // namespace gptrain
