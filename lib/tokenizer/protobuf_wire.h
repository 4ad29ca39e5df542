// The wire format of protocol buffers, as far as sentencepiece models and TensorBoard use it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace gptrain {

enum class WireType : std::uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

struct WireField {
    std::uint64_t number = 0;
    WireType type = WireType::varint;
    std::uint64_t value = 0;   ///< of a varint, fixed64 or fixed32
    std::string_view bytes;    ///< of a string, bytes or message
    std::string_view encoded;  ///< the whole field, including its tag
};

/// The fields of a message, in order. A truncated field, a varint of more than 10 bytes, field
/// number 0 and a group (the only recursive type) are Errors (bad_input) that name `source`.
class WireReader {
public:
    WireReader(std::string_view message, std::string_view source)
        : rest_(message), source_(source) {}
    /// False at the end of the message.
    bool next(WireField& field);

private:
    std::uint64_t take_varint();
    std::uint64_t take_fixed(std::size_t bytes);
    std::string_view take(std::uint64_t bytes);

    std::string_view rest_;
    std::string_view source_;
};

/// Appends a field of type bytes, string or message.
void append_bytes_field(std::string& message, std::uint64_t number, std::string_view bytes);
void append_varint_field(std::string& message, std::uint64_t number, std::uint64_t value);
void append_double_field(std::string& message, std::uint64_t number, double value);
void append_float_field(std::string& message, std::uint64_t number, float value);

}  // namespace gptrain
