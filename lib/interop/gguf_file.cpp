#include "interop/gguf_file.h"

#include <bit>
#include <cstring>
#include <utility>

#include "base/checked.h"

namespace gptrain {
namespace {

static_assert(std::endian::native == std::endian::little,
              "lengths and values are written as they are");

constexpr std::string_view gguf_magic = "GGUF";
constexpr std::uint32_t gguf_version = 3;

// Types of metadata.
constexpr std::uint32_t uint32_type = 4;
constexpr std::uint32_t int32_type = 5;
constexpr std::uint32_t float32_type = 6;
constexpr std::uint32_t bool_type = 7;
constexpr std::uint32_t string_type = 8;
constexpr std::uint32_t array_type = 9;

constexpr std::size_t max_tensor_dims = 4;

template <class T>
void put(std::string& to, T value) {
    char bytes[sizeof value];
    std::memcpy(bytes, &value, sizeof value);
    to.append(bytes, sizeof bytes);
}

void put_text(std::string& to, std::string_view value) {
    put(to, std::uint64_t{value.size()});
    to += value;
}

std::uint32_t tensor_type(DType dtype) {
    switch (dtype) {
        case DType::bf16: return 30;
        case DType::f16: return 1;
        default: return 0;
    }
}

/// Reads a file's values one after the other.
class Cursor {
public:
    Cursor(std::span<const std::byte> bytes, std::string source)
        : bytes_(bytes), source_(std::move(source)) {}

    [[noreturn]] void refuse(const auto&... why) const {
        fail(ExitCode::bad_input, source_, ": byte ", at_, ": ", why...);
    }
    std::size_t at() const { return at_; }

    std::span<const std::byte> take(std::uint64_t count) {
        if (count > bytes_.size() - at_) refuse("the file ends too early");
        const auto taken = bytes_.subspan(at_, static_cast<std::size_t>(count));
        at_ += static_cast<std::size_t>(count);
        return taken;
    }
    template <class T>
    T number() {
        T value{};
        std::memcpy(&value, take(sizeof value).data(), sizeof value);
        return value;
    }
    std::string_view take_text() {
        const auto taken = take(number<std::uint64_t>());
        return {reinterpret_cast<const char*>(taken.data()), taken.size()};
    }
    void skip_value(std::uint32_t type) {
        switch (type) {
            case uint32_type:
            case int32_type:
            case float32_type: take(4); return;
            case bool_type: take(1); return;
            case string_type: take_text(); return;
            case array_type: skip_array(); return;
            default: refuse("a value has the type ", type);
        }
    }

private:
    void skip_array() {
        const auto type = number<std::uint32_t>();
        const auto count = number<std::uint64_t>();
        if (type == array_type) refuse("an array contains arrays");
        for (std::uint64_t i = 0; i < count; ++i)
            skip_value(type);
    }

    std::span<const std::byte> bytes_;
    std::string source_;
    std::size_t at_ = 0;
};

DType dtype_of_type(std::uint32_t type, const Cursor& cursor) {
    for (const DType dtype : {DType::f32, DType::f16, DType::bf16})
        if (tensor_type(dtype) == type) return dtype;
    cursor.refuse("a tensor has the type ", type);
}

/// Row-major; the product does not overflow.
std::vector<std::int64_t> take_shape(Cursor& cursor) {
    const auto dims = cursor.number<std::uint32_t>();
    if (dims > max_tensor_dims) cursor.refuse("a tensor has ", dims, " dims");
    std::vector<std::int64_t> shape(dims);
    std::int64_t elements = 1;
    for (std::size_t dim = dims; dim-- > 0;) {
        shape[dim] = cursor.number<std::int64_t>();
        if (shape[dim] < 1 || __builtin_mul_overflow(elements, shape[dim], &elements))
            cursor.refuse("a tensor has an impossible shape");
    }
    return shape;
}

}  // namespace

void GgufMetadata::add_key(std::string_view key, std::uint32_t type) {
    put_text(bytes_, key);
    put(bytes_, type);
    ++count_;
}

void GgufMetadata::add_array(std::string_view key, std::uint32_t type, std::size_t size) {
    add_key(key, array_type);
    put(bytes_, type);
    put(bytes_, std::uint64_t{size});
}

void GgufMetadata::add_size(std::string_view key, std::int64_t value) {
    add_key(key, uint32_type);
    put(bytes_, narrow<std::uint32_t>(value));
}

void GgufMetadata::add_number(std::string_view key, double value) {
    add_key(key, float32_type);
    put(bytes_, static_cast<float>(value));
}

void GgufMetadata::add_flag(std::string_view key, bool value) {
    add_key(key, bool_type);
    put(bytes_, std::uint8_t{value});
}

void GgufMetadata::add_text(std::string_view key, std::string_view value) {
    add_key(key, string_type);
    put_text(bytes_, value);
}

void GgufMetadata::add_texts(std::string_view key, std::span<const std::string> values) {
    add_array(key, string_type, values.size());
    for (const std::string& value : values)
        put_text(bytes_, value);
}

void GgufMetadata::add_numbers(std::string_view key, std::span<const float> values) {
    add_array(key, float32_type, values.size());
    for (const float value : values)
        put(bytes_, value);
}

void GgufMetadata::add_integers(std::string_view key, std::span<const std::int32_t> values) {
    add_array(key, int32_type, values.size());
    for (const std::int32_t value : values)
        put(bytes_, value);
}

std::int64_t gguf_bytes(const GgufTensor& tensor) {
    return round_up(checked_mul(tensor.shape.elements(), size_of(tensor.dtype)), gguf_alignment);
}

std::string gguf_prefix(const GgufMetadata& metadata, std::span<const GgufTensor> tensors) {
    std::string prefix(gguf_magic);
    put(prefix, gguf_version);
    put(prefix, std::uint64_t{tensors.size()});
    put(prefix, metadata.count());
    prefix += metadata.bytes();
    std::int64_t offset = 0;
    for (const GgufTensor& tensor : tensors) {
        put_text(prefix, tensor.name);
        put(prefix, static_cast<std::uint32_t>(tensor.shape.rank()));
        for (int dim = tensor.shape.rank(); dim-- > 0;)
            put(prefix, tensor.shape[dim]);
        put(prefix, tensor_type(tensor.dtype));
        put(prefix, offset);
        offset = checked_add(offset, gguf_bytes(tensor));
    }
    prefix.resize(static_cast<std::size_t>(round_up(std::ssize(prefix), gguf_alignment)));
    return prefix;
}

GgufFile::GgufFile(const std::filesystem::path& path) : file_(path) {
    Cursor cursor(file_.bytes(), path.string());
    if (std::memcmp(cursor.take(gguf_magic.size()).data(), gguf_magic.data(), gguf_magic.size()) !=
            0 ||
        cursor.number<std::uint32_t>() != gguf_version)
        cursor.refuse("this is no GGUF file of version ", gguf_version);
    const auto tensors = cursor.number<std::uint64_t>();
    const auto keys = cursor.number<std::uint64_t>();
    for (std::uint64_t i = 0; i < keys; ++i) {
        const std::string_view key = cursor.take_text();
        const auto type = cursor.number<std::uint32_t>();
        const std::size_t begin = cursor.at();
        cursor.skip_value(type);
        values_.emplace(key, Value{type, file_.bytes().subspan(begin, cursor.at() - begin)});
    }
    std::vector<std::pair<Entry*, std::uint64_t>> offsets;
    for (std::uint64_t i = 0; i < tensors; ++i) {
        const std::string_view name = cursor.take_text();
        Entry entry;
        entry.shape = take_shape(cursor);
        entry.dtype = dtype_of_type(cursor.number<std::uint32_t>(), cursor);
        const auto [placed, is_new] = tensors_.emplace(name, std::move(entry));
        if (!is_new) cursor.refuse("tensor ", name, " is listed twice");
        offsets.emplace_back(&placed->second, cursor.number<std::uint64_t>());
    }
    const auto data_begin =
        static_cast<std::size_t>(round_up(static_cast<std::int64_t>(cursor.at()), gguf_alignment));
    for (const auto& [entry, offset] : offsets) {
        std::int64_t bytes = size_of(entry->dtype);
        for (const std::int64_t size : entry->shape)
            bytes = checked_mul(bytes, size);
        Cursor data(file_.bytes(), path.string());
        data.take(data_begin);
        data.take(offset);
        entry->bytes = data.take(static_cast<std::uint64_t>(bytes));
    }
}

const GgufFile::Entry& GgufFile::tensor(std::string_view name) const {
    const auto found = tensors_.find(name);
    if (found == tensors_.end())
        fail(ExitCode::bad_input, file_.path().string(), ": has no tensor ", name);
    return found->second;
}

const GgufFile::Value* GgufFile::find_value(std::string_view key, std::uint32_t type) const {
    const auto found = values_.find(key);
    return found == values_.end() || found->second.type != type ? nullptr : &found->second;
}

std::optional<std::int64_t> GgufFile::find_size(std::string_view key) const {
    const Value* value = find_value(key, uint32_type);
    if (value == nullptr) return std::nullopt;
    return Cursor(value->bytes, file_.path().string()).number<std::uint32_t>();
}

std::optional<float> GgufFile::find_number(std::string_view key) const {
    const Value* value = find_value(key, float32_type);
    if (value == nullptr) return std::nullopt;
    return Cursor(value->bytes, file_.path().string()).number<float>();
}

std::optional<bool> GgufFile::find_flag(std::string_view key) const {
    const Value* value = find_value(key, bool_type);
    if (value == nullptr) return std::nullopt;
    return Cursor(value->bytes, file_.path().string()).number<std::uint8_t>() != 0;
}

std::optional<std::string_view> GgufFile::find_text(std::string_view key) const {
    const Value* value = find_value(key, string_type);
    if (value == nullptr) return std::nullopt;
    return Cursor(value->bytes, file_.path().string()).take_text();
}

}  // namespace gptrain
