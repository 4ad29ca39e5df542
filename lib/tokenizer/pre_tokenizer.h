// Splits text into the words that byte-level BPE encodes independently. The published patterns of
// regular expressions are matched by hand.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace gptrain {

/// A way to split a text into consecutive pieces.
enum class Splitter : std::uint8_t {
    gpt2,           ///< the pattern of GPT-2, and of the pre-tokenizer ByteLevel
    llama3,         ///< the pattern of Llama 3: at most three digits in a piece
    qwen2,          ///< the pattern of Qwen2: one digit in a piece, else as llama3
    single_digits,  ///< each number character by itself, and the runs between
    digit_runs,     ///< runs of number characters, and the runs between
};

/// The splitter whose regular expression is `pattern`; nothing if it is none of the three.
std::optional<Splitter> splitter_of(std::string_view pattern);
/// The regular expression of gpt2, llama3 or qwen2.
std::string_view pattern_of(Splitter splitter);

/// Length in bytes of the first piece of a nonempty text (valid UTF-8).
std::size_t first_piece(Splitter splitter, std::string_view text);

/// Calls `take` with each word of `text`: the pieces of the last splitter within those of the one
/// before it, and so on. Without a splitter the text is one word.
void for_each_word(std::string_view text, const std::vector<Splitter>& splitters, const auto& take,
                   std::size_t level = 0) {
    if (level == splitters.size()) return take(text);
    while (!text.empty()) {
        const std::size_t length = first_piece(splitters[level], text);
        for_each_word(text.substr(0, length), splitters, take, level + 1);
        text.remove_prefix(length);
    }
}

}  // namespace gptrain
