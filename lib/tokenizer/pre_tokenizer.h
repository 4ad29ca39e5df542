// Splits text into the words that BPE encodes independently. The published patterns of regular
// expressions (split_patterns.h) are matched by hand.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace gptrain {

/// A way to split a text into consecutive pieces.
enum class Splitter : std::uint8_t {
    // Patterns that match all of a text.
    gpt2,     ///< of GPT-2, and of the pre-tokenizer ByteLevel
    llama3,   ///< of Llama 3 and cl100k: at most three digits in a piece
    qwen2,    ///< of Qwen2: one digit in a piece, else as llama3
    qwen35,   ///< of Qwen 3.5: as qwen2, but marks belong to words
    minicpm,  ///< as llama3, with any number of digits
    seed,     ///< as qwen2, but line ends never follow punctuation
    o200k,    ///< of GPT-4o, gpt-oss, Llama 4 and MiniMax: capitals begin a word
    tekken,   ///< of Mistral: as o200k, without contractions and with one digit
    kimi,     ///< of Kimi: as o200k, with words of Han apart
    // Patterns that match some of it: their matches, and the parts between (partial_patterns.h).
    numbers,                ///< at most three digits
    thousands,              ///< three digits, from the end of a number
    kana,                   ///< Chinese and Japanese
    asian,                  ///< many scripts of Asia
    deepseek3,              ///< the words of DeepSeek V3
    line_ends,              ///< each line end
    last_blanks,            ///< white space at the end of a line
    spaced_letters,         ///< letters, as DeepSeek-Coder has them
    spaced_punctuation,     ///< and punctuation
    spaced_listed_letters,  ///< letters, as DeepSeek V2 has them
    spaced_listed_signs,    ///< and other signs
    bloom,                  ///< of BLOOM
    // Not patterns.
    single_digits,  ///< each number character by itself, and the runs between
    digit_runs,     ///< runs of number characters, and the runs between
    marked_words,   ///< before each U+2581 that follows another character
    each_mark,      ///< before each U+2581
    bert,           ///< runs of white space, words, and each sign of punctuation
};

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
