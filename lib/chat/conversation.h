// Conversations as texts of which a model learns a part: what the assistant says.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "chat/chat_template.h"
#include "tokenizer/tokenizer.h"

namespace gptrain {

/// A text and the parts of it, in order and apart, that a model learns to write.
struct LearnedText {
    std::string text;
    std::vector<TextRange> learned;
};

/// More assistant's turns than this need a template with {% generation %}.
constexpr std::int64_t max_learned_turns = 1024;

/// The text of a conversation, messages as ChatTemplate::render takes them, each with a role. The
/// model learns what {% generation %} encloses. With a template that lacks it, the conversation is
/// rendered up to each message of the assistant with the generation prompt, then with that message:
/// the model learns what the second text adds to the first. Errors (bad_input): those of
/// ChatTemplate::render, too many turns, and a template whose texts do not begin with each other.
/// `unlearned`: the assistant's messages that are not learned. With {% generation %} it is an Error
/// (bad_input) if the template does not enclose each message of the assistant once.
LearnedText render_learned(const ChatTemplate& chat_template, const Json& messages,
                           const Json& variables, const std::set<std::size_t>& unlearned = {});

/// 1 for each token that begins in a learned part of its text, 0 for each other.
std::vector<std::uint8_t> learned_tokens(std::span<const std::size_t> begins,
                                         std::span<const TextRange> learned);

/// The marks before and after learned text where it is shown.
struct LearnedMarks {
    std::string_view begin;
    std::string_view end;
};

/// Colours on a terminal that has them, else {+ and +}.
LearnedMarks learned_marks();

/// Error (bad_input) that names the place, if one of the first ids of a document of the token files
/// `prefix` is outside the tokenizer's vocabulary.
void check_ids(const Tokenizer& tokenizer, std::span<const std::int32_t> ids,
               const std::filesystem::path& prefix, std::int64_t document);

/// The text of tokens for print_sequences: special ones as they are spelled, control characters
/// shown (without_controls), with learned parts between `marks`.
std::string show_learned(const Tokenizer& tokenizer, std::span<const std::int32_t> ids,
                         std::span<const std::uint8_t> learned, const LearnedMarks& marks);

}  // namespace gptrain
