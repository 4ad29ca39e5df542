// How the vocabularies of byte-level BPE spell bytes: each as a printable character.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace gptrain {

/// The bytes that a token of valid UTF-8 spells; nothing if a character stands for no byte.
std::optional<std::string> bytes_of_spelling(std::string_view token);

/// The spelling of bytes.
std::string spelling_of_bytes(std::string_view bytes);

}  // namespace gptrain
