// Texts shared by the tests of tokenizers and conversations.
#pragma once

#include <filesystem>
#include <fstream>
#include <sentencepiece_trainer.h>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "tokenizer/tokenizer.h"

namespace gptrain {

inline std::vector<std::int32_t> ids_of(const Tokenizer& tokenizer, std::string_view text) {
    std::vector<std::int32_t> ids;
    tokenizer.encode(text, ids);
    return ids;
}

/// The JSON in each line of a file.
inline std::vector<Json> lines_of(const std::filesystem::path& path) {
    std::vector<Json> lines;
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);)
        lines.push_back(parse_json(line, path.string()));
    return lines;
}

/// English-like lines with digits and punctuation, the same on every machine.
inline std::vector<std::string> sample_text() {
    const std::vector<std::string> words = {
        "and",    "the",    "earth", "was",   "without", "form",    "void",    "darkness",
        "upon",   "face",   "deep",  "light", "day",     "evening", "morning", "waters",
        "under",  "heaven", "let",   "there", "be",      "firm",    "midst",   "divide",
        "called", "God",    "saw",   "that",  "it",      "good"};
    std::vector<std::string> lines;
    std::uint32_t state = 1;
    for (int line = 0; line < 800; ++line) {
        std::string text = std::to_string(line % 31) + ":" + std::to_string(line % 7);
        for (int word = 0; word < 12; ++word) {
            state = state * 1664525u + 1013904223u;
            text += " " + words[(state >> 16) % words.size()] + (word % 5 == 4 ? "," : "");
        }
        lines.push_back(text + ".");
    }
    return lines;
}

/// Lines in the form that the library's trainer accepts.
class LineSentences : public sentencepiece::SentenceIterator {
public:
    explicit LineSentences(std::vector<std::string> lines) : lines_(std::move(lines)) {}
    bool done() const override { return at_ == lines_.size(); }
    void Next() override { ++at_; }
    const std::string& value() const override { return lines_[at_]; }
    sentencepiece::util::Status status() const override { return {}; }

private:
    std::vector<std::string> lines_;
    std::size_t at_ = 0;
};

}  // namespace gptrain
