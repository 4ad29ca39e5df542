// Files in the GGUF format, version 3, as llama.cpp reads them: metadata, the tensors' names and
// shapes, then their bytes, all little-endian
// (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/file.h"
#include "tensor/shape.h"

namespace gptrain {

/// Each tensor's bytes, and the first of them in the file, begin at a multiple of this.
constexpr std::int64_t gguf_alignment = 32;

/// Keys and their values, as they are written.
class GgufMetadata {
public:
    void add_size(std::string_view key, std::int64_t value);  ///< uint32
    void add_number(std::string_view key, double value);      ///< float32
    void add_flag(std::string_view key, bool value);
    void add_text(std::string_view key, std::string_view value);
    void add_texts(std::string_view key, std::span<const std::string> values);
    void add_numbers(std::string_view key, std::span<const float> values);
    void add_integers(std::string_view key, std::span<const std::int32_t> values);

    std::int64_t count() const { return count_; }
    std::string_view bytes() const { return bytes_; }

private:
    void add_key(std::string_view key, std::uint32_t type);
    void add_array(std::string_view key, std::uint32_t type, std::size_t size);

    std::string bytes_;
    std::int64_t count_ = 0;
};

/// A tensor to be written.
struct GgufTensor {
    std::string name;
    Shape shape;  ///< row-major; the file lists its dims from the last to the first
    DType dtype = DType::f32;
};

/// The bytes of a tensor and of the padding up to the next one.
std::int64_t gguf_bytes(const GgufTensor& tensor);

/// The bytes before the data of a file whose tensors lie in this order.
std::string gguf_prefix(const GgufMetadata& metadata, std::span<const GgufTensor> tensors);

/// A file written with `gguf_prefix`, mapped into memory, to compare it with what was written. It
/// does not know every type of the format. Error (bad_input) for a faulty file.
class GgufFile {
public:
    explicit GgufFile(const std::filesystem::path& path);

    struct Entry {
        std::vector<std::int64_t> shape;  ///< row-major
        DType dtype = DType::f32;         ///< fp32, bf16 or fp16
        std::span<const std::byte> bytes;
    };
    /// Error (bad_input) if there is no such tensor.
    const Entry& tensor(std::string_view name) const;

    /// The value of a key; nothing if the file does not have it, or with another type.
    std::optional<std::int64_t> find_size(std::string_view key) const;  ///< uint32
    std::optional<float> find_number(std::string_view key) const;       ///< float32
    std::optional<bool> find_flag(std::string_view key) const;
    std::optional<std::string_view> find_text(std::string_view key) const;

private:
    struct Value {
        std::uint32_t type = 0;
        std::span<const std::byte> bytes;
    };
    /// Null if there is none of this type.
    const Value* find_value(std::string_view key, std::uint32_t type) const;

    MappedFile file_;
    std::map<std::string, Value, std::less<>> values_;
    std::map<std::string, Entry, std::less<>> tensors_;
};

}  // namespace gptrain
