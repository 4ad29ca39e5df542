#include "tokenizer/split_patterns.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "base/error.h"
#include "base/text.h"
#include "tokenizer/partial_patterns.h"

namespace gptrain {
namespace {

/// The preferred spelling of a splitter comes first.
const SplitPattern patterns[] = {
    {R"('(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)", Splitter::gpt2},
    // The same as published with GPT-2.
    {R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)",
     Splitter::gpt2},
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
     R"(\s*[\r\n]+|\s+(?!\S)|\s+)",
     Splitter::llama3},
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
     R"(\s*[\r\n]+|\s+(?!\S)|\s+)",
     Splitter::qwen2},
    // The same as LLaDA spells it.
    {R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|)"
     R"(\s*[\r\n]|\s+(?!\S)|\s+)",
     Splitter::qwen2},
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}|)"
     R"( ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     Splitter::qwen35},
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
     R"(\s*[\r\n]+|\s+(?!\S)|\s+)",
     Splitter::minicpm},
    {"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1}| ?[^\\s\\p{L}\\p{N}\r\n]+|"
     "\\s*[\r\n]+|\\s+(?!\\S)|\\s+",
     Splitter::seed},
    {R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
     R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
     R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     Splitter::o200k},
    {R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|)"
     R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|)"
     R"(\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     Splitter::tekken},
    {R"([\p{Han}]+|)"
     R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*)"
     R"([\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
     R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+)"
     R"([\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
     R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     Splitter::kimi},
    {R"(\p{N}{1,3})", Splitter::numbers, false},
    {R"(\d{1,3}(?=(?:\d{3})*\b))", Splitter::thousands, false},
    {"[\u4E00-\u9FA5\u3040-\u309F\u30A0-\u30FF]+", Splitter::kana, false},
    {"[\u4E00-\u9FA5\u0800-\u4E00\uAC00-\uD7FF]+", Splitter::asian, false},
    {R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|)"
     "[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|"
     "\\s*[\r\n]+|\\s+(?!\\S)|\\s+",
     Splitter::deepseek3, false},
    {"[\r\n]", Splitter::line_ends, false},
    {R"(\s+$)", Splitter::last_blanks, false},
    {R"(\s?\p{L}+)", Splitter::spaced_letters, false},
    {R"(\s?\p{P}+)", Splitter::spaced_punctuation, false},
    {"\\s?[!-/:-~\uFF01-\uFF0F\uFF1A-\uFF5E\u2018-\u201F\u3000-\u3002]+",
     Splitter::spaced_listed_signs, false},
    {" ?[^(\\s|[.,!?\u2026\u3002\uFF0C\u3001\u0964\u06D4\u060C])]+", Splitter::bloom, false},
};

}  // namespace

std::optional<SplitPattern> split_pattern(std::string_view regex) {
    static const std::string listed_letters = text("\\s?[", deepseek_letters, "]+");
    if (regex == listed_letters)
        return SplitPattern{listed_letters, Splitter::spaced_listed_letters, false};
    const auto found = std::ranges::find(patterns, regex, &SplitPattern::regex);
    if (found == std::end(patterns)) return std::nullopt;
    return *found;
}

std::string_view regex_of(Splitter splitter) {
    const auto found = std::ranges::find(patterns, splitter, &SplitPattern::splitter);
    GPTRAIN_CHECK(found != std::end(patterns));
    return found->regex;
}

}  // namespace gptrain
