// Files in the safetensors format: an unsigned 64-bit length N, a JSON header of N bytes, then the
// tensors' bytes, all little-endian (https://github.com/huggingface/safetensors).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/file.h"
#include "tensor/shape.h"

namespace gptrain {

/// A tensor in a header. Its bytes are [begin, end) after the header.
struct SafetensorsEntry {
    std::string dtype;                ///< as written in the file: "F32", "BF16", ...
    std::vector<std::int64_t> shape;  ///< empty for a scalar
    std::int64_t begin = 0;
    std::int64_t end = 0;
};

using SafetensorsHeader = std::map<std::string, SafetensorsEntry, std::less<>>;

/// Parses and checks the JSON header of a file with `data_bytes` bytes after it. The tensors cover
/// these bytes exactly once, each of the size of its shape and dtype; otherwise Error (bad_input)
/// that names `source` and the tensor.
SafetensorsHeader parse_safetensors_header(std::string_view json, std::int64_t data_bytes,
                                           const std::string& source);

/// A checked file, mapped into memory.
class SafetensorsFile {
public:
    /// Error (bad_input) for a missing or faulty file.
    explicit SafetensorsFile(const std::filesystem::path& path);

    const std::filesystem::path& path() const { return file_.path(); }
    const SafetensorsHeader& tensors() const { return header_; }
    std::span<const std::byte> bytes_of(const SafetensorsEntry& entry) const;

private:
    MappedFile file_;
    SafetensorsHeader header_;
    std::size_t data_begin_ = 0;
};

/// The dtype of a tensor of weights: F32, F16 or BF16. Another one is an Error (bad_input) that
/// names `source`.
DType weight_dtype(const SafetensorsEntry& entry, const std::string& source);

/// A tensor to be written.
struct NamedShape {
    std::string name;
    Shape shape;
    DType dtype = DType::f32;
};

/// The bytes before the data of a file with these tensors, which lie in the given order. With the
/// metadata that PyTorch's loaders expect.
std::string safetensors_prefix(std::span<const NamedShape> tensors);

}  // namespace gptrain
