#include "tokenizer/byte_alphabet.h"

#include <array>

#include "unicode/unicode.h"

namespace gptrain {
namespace {

bool is_printable_latin(char32_t byte) {
    return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xFF && byte != 0xAD);
}

/// GPT-2's: printable characters of Latin-1 stand for themselves, the other bytes are U+0100 and
/// so on, in order.
struct ByteAlphabet {
    static constexpr std::size_t characters = 0x144;
    std::array<char32_t, 256> character_of{};
    std::array<int, characters> byte_of{};

    ByteAlphabet() {
        byte_of.fill(-1);
        char32_t next = 0x100;
        for (char32_t byte = 0; byte < 256; ++byte) {
            character_of[byte] = is_printable_latin(byte) ? byte : next++;
            byte_of[character_of[byte]] = static_cast<int>(byte);
        }
    }
    static const ByteAlphabet& instance() {
        static const ByteAlphabet alphabet;
        return alphabet;
    }
};

}  // namespace

std::optional<std::string> bytes_of_spelling(std::string_view token) {
    const ByteAlphabet& alphabet = ByteAlphabet::instance();
    std::string bytes;
    while (!token.empty()) {
        const DecodedChar next = first_char(token);
        const int byte = next.code < ByteAlphabet::characters ? alphabet.byte_of[next.code] : -1;
        if (byte < 0) return std::nullopt;
        bytes += static_cast<char>(byte);
        token.remove_prefix(next.bytes);
    }
    return bytes;
}

std::string spelling_of_bytes(std::string_view bytes) {
    const ByteAlphabet& alphabet = ByteAlphabet::instance();
    std::string token;
    for (const char byte : bytes)
        append_char(token, alphabet.character_of[static_cast<unsigned char>(byte)]);
    return token;
}

}  // namespace gptrain
