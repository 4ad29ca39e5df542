#include "interop/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <utility>

#include "base/checked.h"
#include "base/json.h"

namespace gptrain {
namespace {

static_assert(std::endian::native == std::endian::little,
              "lengths and values are read as they are");

constexpr std::int64_t max_header_bytes = 100'000'000;
constexpr std::size_t length_bytes = sizeof(std::uint64_t);
constexpr std::size_t max_dims = 64;

/// Bytes of an element.
std::optional<std::int64_t> bytes_of(std::string_view dtype) {
    const auto is_any = [&](const auto&... names) { return ((dtype == names) || ...); };
    if (is_any("BOOL", "U8", "I8", "F8_E5M2", "F8_E4M3", "F8_E8M0")) return 1;
    if (is_any("I16", "U16", "F16", "BF16")) return 2;
    if (is_any("I32", "U32", "F32")) return 4;
    if (is_any("F64", "I64", "U64", "C64")) return 8;
    return std::nullopt;
}

[[noreturn]] void refuse(const std::string& source, const auto&... parts) {
    fail(ExitCode::bad_input, source, ": ", parts...);
}

std::vector<std::int64_t> sizes_in(const JsonReader& reader, std::string_view key,
                                   const std::string& source) {
    std::vector<std::int64_t> sizes = reader.integers(key);
    for (const std::int64_t size : sizes)
        if (size < 0) refuse(source, "'", key, "' has a negative number");
    return sizes;
}

SafetensorsEntry entry_in(const Json& item, std::int64_t data_bytes, const std::string& source) {
    const JsonReader reader(item, source);
    SafetensorsEntry entry;
    entry.dtype = reader.string("dtype");
    const auto width = bytes_of(entry.dtype);
    if (!width) refuse(source, "'dtype' is unknown");
    entry.shape = sizes_in(reader, "shape", source);
    if (entry.shape.size() > max_dims) refuse(source, "'shape' has too many dims");
    const auto offsets = sizes_in(reader, "data_offsets", source);
    if (offsets.size() != 2 || offsets[0] > offsets[1] || offsets[1] > data_bytes) {
        refuse(source, "'data_offsets' is not a range of the file's ", data_bytes,
               " bytes of data; is the file complete?");
    }
    entry.begin = offsets[0];
    entry.end = offsets[1];
    std::int64_t bytes = *width;
    for (const std::int64_t size : entry.shape)
        if (__builtin_mul_overflow(bytes, size, &bytes)) refuse(source, "'shape' is too large");
    if (bytes != entry.end - entry.begin) {
        refuse(source, "'data_offsets' has ", entry.end - entry.begin,
               " bytes, but 'shape' and 'dtype' need ", bytes);
    }
    return entry;
}

void check_metadata(const Json& metadata, const std::string& source) {
    if (!metadata.is_object()) refuse(source, "'__metadata__' must be an object");
    for (const auto& [key, value] : metadata.items())
        if (!value.is_string()) refuse(source, "'__metadata__' must contain only strings");
}

/// Every byte belongs to one tensor.
void check_covered(const SafetensorsHeader& header, std::int64_t data_bytes,
                   const std::string& source) {
    std::vector<std::pair<std::int64_t, std::int64_t>> ranges;
    for (const auto& [name, entry] : header)
        ranges.emplace_back(entry.begin, entry.end);
    std::sort(ranges.begin(), ranges.end());
    std::int64_t next = 0;
    for (const auto& [begin, end] : ranges) {
        if (begin != next) refuse(source, "tensors overlap or leave a gap at byte ", next);
        next = end;
    }
    if (next != data_bytes) {
        refuse(source, "has ", data_bytes, " bytes of data, but its tensors have ", next);
    }
}

std::string_view text_of(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string_view name_in_file(DType dtype) {
    switch (dtype) {
        case DType::bf16: return "BF16";
        case DType::f16: return "F16";
        default: return "F32";
    }
}

}  // namespace

SafetensorsHeader parse_safetensors_header(std::string_view json, std::int64_t data_bytes,
                                           const std::string& source) {
    const Json root = parse_json(json, source);
    if (!root.is_object()) refuse(source, "the header must be a JSON object");
    SafetensorsHeader header;
    for (const auto& [name, item] : root.items()) {
        if (name == "__metadata__") {
            check_metadata(item, source);
        } else {
            const std::string shown = name.substr(0, 200);
            header.emplace(name, entry_in(item, data_bytes, text(source, ": tensor ", shown)));
        }
    }
    check_covered(header, data_bytes, source);
    return header;
}

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path) : file_(path) {
    const std::span<const std::byte> bytes = file_.bytes();
    const std::string source = path.string();
    if (bytes.size() < length_bytes) refuse(source, "is too short for a safetensors file");
    std::uint64_t length = 0;
    std::memcpy(&length, bytes.data(), sizeof length);
    if (length > max_header_bytes || length > bytes.size() - length_bytes) {
        refuse(source, "is not a safetensors file or is cut off: its header has ", length,
               " bytes, the file ", bytes.size());
    }
    data_begin_ = length_bytes + static_cast<std::size_t>(length);
    header_ = parse_safetensors_header(text_of(bytes.subspan(length_bytes, length)),
                                       std::ssize(bytes) - static_cast<std::int64_t>(data_begin_),
                                       source);
}

std::span<const std::byte> SafetensorsFile::bytes_of(const SafetensorsEntry& entry) const {
    return file_.bytes().subspan(data_begin_ + static_cast<std::size_t>(entry.begin),
                                 static_cast<std::size_t>(entry.end - entry.begin));
}

DType weight_dtype(const SafetensorsEntry& entry, const std::string& source) {
    for (const DType dtype : {DType::f32, DType::f16, DType::bf16})
        if (entry.dtype == name_in_file(dtype)) return dtype;
    fail(ExitCode::bad_input, source, " has dtype ", entry.dtype,
         "; weights must be F32, F16 or BF16");
}

std::string safetensors_prefix(std::span<const NamedShape> tensors) {
    Json header = {{"__metadata__", {{"format", "pt"}}}};
    std::int64_t offset = 0;
    for (const auto& [name, shape, dtype] : tensors) {
        const std::int64_t end = checked_add(offset, checked_mul(shape.elements(), size_of(dtype)));
        header[name] = {{"dtype", name_in_file(dtype)},
                        {"shape", std::vector<std::int64_t>(shape.begin(), shape.end())},
                        {"data_offsets", {offset, end}}};
        offset = end;
    }
    std::string json = to_line(header);
    json.append((8 - json.size() % 8) % 8, ' ');
    const std::uint64_t length = json.size();
    std::string prefix(sizeof length, '\0');
    std::memcpy(prefix.data(), &length, sizeof length);
    return prefix + json;
}

}  // namespace gptrain
