// The bytes of texts, and how the vocabularies of byte-level BPE spell them: each as a printable
// character.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace gptrain {

/// The bytes that a token of valid UTF-8 spells; nothing if a character stands for no byte.
std::optional<std::string> bytes_of_spelling(std::string_view token);

/// The spelling of bytes.
std::string spelling_of_bytes(std::string_view bytes);

/// True if valid UTF-8 may have the byte.
constexpr bool is_in_utf8(std::size_t byte) {
    return byte < 0xC0 || (byte >= 0xC2 && byte < 0xF5);
}

}  // namespace gptrain
