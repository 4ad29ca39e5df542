// Patterns that match only some of a text. A piece is a match, or the text up to the next one.
#pragma once

#include <cstddef>
#include <string_view>

namespace gptrain {

/// Each of these returns the length of the first piece of a nonempty text.

/// `\p{N}{1,3}`
std::size_t number_piece(std::string_view text);
/// `[一-龥぀-ゟ゠-ヿ]+`: runs of Chinese characters and kana.
std::size_t kana_piece(std::string_view text);
/// `[一-龥ࠀ-一가-퟿]+`: runs of characters of many scripts of Asia.
std::size_t asian_piece(std::string_view text);
/// The words of DeepSeek V3.
std::size_t deepseek3_piece(std::string_view text);
/// `[\r\n]`
std::size_t line_end_piece(std::string_view text);
/// `\s+$`
std::size_t last_blanks_piece(std::string_view text);
/// `\s?\p{L}+`
std::size_t spaced_letters_piece(std::string_view text);
/// `\s?\p{P}+`
std::size_t spaced_punctuation_piece(std::string_view text);
/// `\s?[...]+` with the letters that DeepSeek's first models list.
std::size_t spaced_listed_letters_piece(std::string_view text);
/// `\s?[!-/:-~！-／：-～‘-‟　-。]+`
std::size_t spaced_listed_signs_piece(std::string_view text);
/// `\d{1,3}(?=(?:\d{3})*\b)`: groups of three digits, from the end of a number.
std::size_t thousands_piece(std::string_view text);
/// ` ?[^(\s|[.,!?…。，、।۔،])]+`
std::size_t bloom_piece(std::string_view text);

/// Not a pattern: runs of white space, words, and each sign of punctuation.
std::size_t bert_piece(std::string_view text);

/// The letters that DeepSeek's first models list, as ranges of a regular expression.
extern const std::string_view deepseek_letters;

}  // namespace gptrain
