#include "tokenizer/protobuf_wire.h"

#include <bit>

#include "base/error.h"
#include "base/varint.h"

namespace gptrain {
namespace {

void append_varint(std::string& out, std::uint64_t value) {
    while (value >= 0x80) {
        out += static_cast<char>(value | 0x80);
        value >>= 7;
    }
    out += static_cast<char>(value);
}

void append_tag(std::string& out, std::uint64_t number, WireType type) {
    append_varint(out, number << 3 | static_cast<std::uint64_t>(type));
}

/// Little endian.
template <class T>
void append_fixed(std::string& out, T bits) {
    for (std::size_t i = 0; i < sizeof bits; ++i)
        out += static_cast<char>(bits >> 8 * i & 0xff);
}

}  // namespace

bool WireReader::next(WireField& field) {
    if (rest_.empty()) return false;
    const std::string_view start = rest_;
    const std::uint64_t tag = take_varint();
    field = {};
    field.number = tag >> 3;
    field.type = static_cast<WireType>(tag & 7);
    if (field.number == 0) fail(ExitCode::bad_input, source_, ": a field has the number 0");
    switch (field.type) {
        case WireType::varint: field.value = take_varint(); break;
        case WireType::fixed64: field.value = take_fixed(8); break;
        case WireType::fixed32: field.value = take_fixed(4); break;
        case WireType::bytes: field.bytes = take(take_varint()); break;
        default:
            fail(ExitCode::bad_input, source_, ": field ", field.number,
                 " has unsupported wire type ", tag & 7);
    }
    field.encoded = start.substr(0, start.size() - rest_.size());
    return true;
}

std::uint64_t WireReader::take_varint() {
    const auto value =
        read_varint([this] { return static_cast<unsigned char>(take(1)[0]); }, varint_bytes_64);
    if (!value) fail(ExitCode::bad_input, source_, ": a number is longer than 10 bytes");
    return *value;
}

std::uint64_t WireReader::take_fixed(std::size_t bytes) {
    const std::string_view little_endian = take(bytes);
    std::uint64_t value = 0;
    for (std::size_t i = bytes; i-- > 0;)
        value = value << 8 | static_cast<unsigned char>(little_endian[i]);
    return value;
}

std::string_view WireReader::take(std::uint64_t bytes) {
    if (bytes > rest_.size()) {
        fail(ExitCode::bad_input, source_, ": truncated: ", bytes - rest_.size(),
             " bytes are missing at the end of a field");
    }
    const std::string_view taken = rest_.substr(0, bytes);
    rest_.remove_prefix(bytes);
    return taken;
}

void append_bytes_field(std::string& message, std::uint64_t number, std::string_view bytes) {
    append_tag(message, number, WireType::bytes);
    append_varint(message, bytes.size());
    message += bytes;
}

void append_varint_field(std::string& message, std::uint64_t number, std::uint64_t value) {
    append_tag(message, number, WireType::varint);
    append_varint(message, value);
}

void append_double_field(std::string& message, std::uint64_t number, double value) {
    append_tag(message, number, WireType::fixed64);
    append_fixed(message, std::bit_cast<std::uint64_t>(value));
}

void append_float_field(std::string& message, std::uint64_t number, float value) {
    append_tag(message, number, WireType::fixed32);
    append_fixed(message, std::bit_cast<std::uint32_t>(value));
}

}  // namespace gptrain
