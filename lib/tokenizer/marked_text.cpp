#include "tokenizer/marked_text.h"

#include <span>
#include <utility>

#include "tokenizer/added_token_files.h"

namespace gptrain {
namespace {

using Marks = std::vector<std::pair<std::string, std::int32_t>>;

Marks marks_of(const Tokenizer& tokenizer, const Json& config, const std::string& source) {
    Marks marks = tokenizer.spelled_pieces();
    // A tokenizer.json has its added tokens in the file; the list is a copy of them.
    if (marks.empty()) return marks;
    const auto is_piece = [&](std::int64_t id, const std::string& content) {
        return id >= 0 && id < tokenizer.vocab_size() &&
               tokenizer.bytes(static_cast<std::int32_t>(id)) == content;
    };
    for (const Json& token : added_tokens_of(config, source)) {
        const auto id = token.at("id").get<std::int64_t>();
        const auto& content = token.at("content").get_ref<const std::string&>();
        if (!content.empty() && is_piece(id, content))
            marks.emplace_back(content, static_cast<std::int32_t>(id));
    }
    return marks;
}

std::vector<SpelledToken> spelled_tokens(const Marks& marks) {
    std::vector<SpelledToken> tokens;
    for (const auto& [text, id] : marks)
        tokens.push_back({.text = text, .id = id});
    return tokens;
}

}  // namespace

MarkedEncoder::MarkedEncoder(const Tokenizer& tokenizer, const Json& config,
                             const std::string& source)
    : tokenizer_(tokenizer),
      marks_(spelled_tokens(marks_of(tokenizer, config, source))),
      space_after_marks_(config.contains("legacy") && config.at("legacy") == true) {}

LocatedIds MarkedEncoder::encode(std::string_view text) const {
    LocatedIds result;
    const auto take_text = [&](std::string_view part) {
        const auto at = static_cast<std::size_t>(part.data() - text.data());
        const std::size_t first = result.begins.size();
        const bool starts = (at == 0 || space_after_marks_) && !part.starts_with(' ');
        tokenizer_.encode(part, result.ids, result.begins,
                          starts ? TextStart::whole : TextStart::continued);
        for (std::size_t& begin : std::span(result.begins).subspan(first))
            begin += at;
    };
    marks_.split(text, take_text, [&](std::int32_t id, std::string_view mark) {
        result.ids.push_back(id);
        result.begins.push_back(static_cast<std::size_t>(mark.data() - text.data()));
    });
    return result;
}

}  // namespace gptrain
