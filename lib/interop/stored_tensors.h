// The bytes of tensors in another program's files, and our fp32 values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/file.h"
#include "interop/bitsandbytes.h"
#include "interop/foreign_tensors.h"

namespace gptrain {

/// Where one of our tensors, or an expert's part of it, is in the stack that a file's tensor holds.
struct StoredTensor {
    std::span<const std::byte> bytes;  ///< of the file's tensor
    DType dtype = DType::f32;          ///< fp32, bf16 or fp16
    /// In place of both if the file has the tensor in NF4.
    std::shared_ptr<const FileNf4> nf4 = {};
    StackRows rows = {};
    std::int64_t columns = 1;  ///< of the stack
    /// If not 0: the file has the stack transposed, in matrices of so many of its rows.
    std::int64_t transposed_rows = 0;
    float addend = 0;  ///< ours = theirs * factor + addend
    float factor = 1;
};

/// By the names of our tensors: where each is, or each expert's part of it.
using StoredTensors = std::map<std::string, std::vector<StoredTensor>, std::less<>>;

/// Adds the parts of a foreign tensor. `stored` has its bytes and how to read them. `shapes`: those
/// of our tensors.
void place_parts(const ForeignTensor& tensor, StoredTensor stored,
                 const std::map<std::string, Shape>& shapes, StoredTensors& to);

/// The matrix of which `part` is a part, or that of its first expert, if the file has exactly that
/// in NF4.
std::optional<Nf4View> stored_nf4(std::span<const StoredTensor> places, const Shard& part);

/// to = the elements of a shard of one of our tensors, which is in `places`. Several threads
/// may call it.
void read_stored(std::span<const StoredTensor> places, const Shard& part, std::span<float> to);

/// Compares every element of our `tensors` in a file that was written, a few MiB at a time, with
/// the weights, rounded as the file has them. A difference is an Error (bug).
void check_stored(const StoredTensors& stored, std::span<const Shard> tensors,
                  const WeightReader& weights);

/// Rounds values to what `dtype` holds.
void round_floats(std::span<float> values, DType dtype);

/// Writes the values of tensor `name` as `dtype` (fp32, bf16 or fp16) at the file's position. A
/// value too large for fp16 is an Error (usage).
void write_floats(File& file, const std::string& name, std::span<const float> values, DType dtype);

}  // namespace gptrain
