// Conversations as texts of which a model learns a part: what the assistant says.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
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
    std::vector<float> weights = {};  ///< of each part, above 0 and at most 1
};

/// More assistant's turns than this need a template with {% generation %}.
constexpr std::int64_t max_learned_turns = 1024;
/// The most bytes of all texts of a conversation.
constexpr std::int64_t max_learned_bytes = std::int64_t{64} << 20;

/// ChatTemplate::render, whose Errors (bad_input) begin with the message up to which the text
/// cannot be made, as "name[2]: ", if a conversation without it can.
std::string render_messages(const ChatTemplate& chat_template, const Json& messages,
                            const Json& variables, bool add_generation_prompt,
                            std::string_view name = "messages");

/// The messages that a model learns from, and the name of the conversation in errors.
struct LearnedMessages {
    const Json& messages;  ///< as ChatTemplate::render takes them, each with a role
    /// Those of the assistant's messages that count less than 1; with 0 they are not learned.
    std::map<std::size_t, float> weights = {};
    std::string_view name = "messages";
};

/// The texts of a conversation, with the parts that are learned, in the order of their messages.
///
/// With a template that has {% generation %} there is one text, and the model learns what that
/// encloses. With another one, each message of the assistant is learned as it is written where it
/// is the last: the part of that text behind the generation prompt, or behind what the generation
/// prompt and all answers begin with. Messages share the longest text that begins with theirs: the
/// whole conversation if the template only ever appends.
///
/// Errors (bad_input): those of render_messages, too many turns or bytes, a template that writes
/// no answer behind its generation prompt, reasoning that it leaves out, and with weights
/// {% generation %} that does not enclose each message of the assistant once.
std::vector<LearnedText> render_learned(const ChatTemplate& chat_template,
                                        const LearnedMessages& conversation, const Json& variables);

/// 1 for each token that begins in a learned part of its text, 0 for each other.
std::vector<std::uint8_t> learned_tokens(std::span<const std::size_t> begins,
                                         std::span<const TextRange> learned);

/// The weight of the learned part in which each token begins, 0 for each other.
std::vector<float> token_weights(std::span<const std::size_t> begins, const LearnedText& text);

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
