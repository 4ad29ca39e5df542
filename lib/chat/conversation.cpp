#include "chat/conversation.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/log.h"

namespace gptrain {
namespace {

bool is_assistant(const Json& message) {
    return message.at("role") == "assistant";
}

/// Refuses a template of which the text `longer` does not begin with `shorter`.
void require_prefix(const std::string& longer, const std::string& shorter, std::size_t message,
                    std::string_view when) {
    if (longer.starts_with(shorter)) return;
    const auto differ = std::mismatch(shorter.begin(), shorter.end(), longer.begin(), longer.end());
    fail(ExitCode::bad_input, "messages[", message, "]: the template writes the conversation ",
         when, " otherwise, from byte ", differ.first - shorter.begin(),
         " of its text on, so what the assistant says cannot be determined; use a template with "
         "{% generation %}, or end the conversation after this message");
}

/// The text before an answer to the messages `before`.
std::string prompt_text(const ChatTemplate& chat_template, const Json& before,
                        const Json& variables) {
    try {
        return chat_template.render(before, variables, true);
    } catch (const Error& error) {
        if (!before.empty() || error.code() != ExitCode::bad_input) throw;
        fail(ExitCode::bad_input,
             "messages[0]: the conversation begins with the assistant, and the template renders "
             "no text before it (",
             error.what(),
             "); begin with a message of the user, or use a template with {% generation %}");
    }
}

/// Removes the texts of the messages `unlearned` from the learned ones.
void remove_unlearned(const Json& messages, const std::set<std::size_t>& unlearned,
                      std::vector<TextRange>& learned) {
    if (unlearned.empty()) return;
    const auto turns = std::count_if(messages.begin(), messages.end(), is_assistant);
    if (turns != std::ssize(learned)) {
        fail(ExitCode::bad_input, "the template encloses ", learned.size(),
             " texts in {% generation %} for ", turns, " messages of the assistant, so it is ",
             "not known which has the weight 0; leave that message out");
    }
    std::vector<TextRange> rest;
    auto range = learned.begin();
    for (std::size_t at = 0; at < messages.size(); ++at) {
        if (!is_assistant(messages[at])) continue;
        if (!unlearned.contains(at)) rest.push_back(*range);
        ++range;
    }
    learned = std::move(rest);
}

/// The part of the whole text that the assistant's message `at` adds to `before`.
TextRange turn_range(const ChatTemplate& chat_template, const Json& before, const Json& variables,
                     const std::string& whole, std::size_t at, const Json& with) {
    const std::string prompt = prompt_text(chat_template, before, variables);
    const std::string said = chat_template.render(with, variables, false);
    require_prefix(said, prompt, at, "with the generation prompt and with the answer");
    require_prefix(whole, said, at, "that ends here and the one that goes on");
    return {prompt.size(), said.size()};
}

}  // namespace

LearnedText render_learned(const ChatTemplate& chat_template, const Json& messages,
                           const Json& variables, const std::set<std::size_t>& unlearned) {
    LearnedText result;
    if (chat_template.marks_generation()) {
        result.text = chat_template.render(messages, variables, result.learned);
        remove_unlearned(messages, unlearned, result.learned);
        return result;
    }
    const auto turns = std::count_if(messages.begin(), messages.end(), is_assistant);
    if (turns > max_learned_turns) {
        fail(ExitCode::bad_input, "has ", turns, " messages of the assistant, but without ",
             "{% generation %} in the template the limit is ", max_learned_turns,
             "; split the conversation");
    }
    result.text = chat_template.render(messages, variables, false);
    Json before = Json::array();
    for (std::size_t at = 0; at < messages.size(); ++at) {
        Json with = before;
        with.push_back(messages[at]);
        if (is_assistant(messages[at]) && !unlearned.contains(at)) {
            result.learned.push_back(
                turn_range(chat_template, before, variables, result.text, at, with));
        }
        before = std::move(with);
    }
    return result;
}

std::vector<std::uint8_t> learned_tokens(std::span<const std::size_t> begins,
                                         std::span<const TextRange> learned) {
    std::vector<std::uint8_t> tokens;
    tokens.reserve(begins.size());
    for (const std::size_t begin : begins) {
        while (!learned.empty() && learned.front().end <= begin)
            learned = learned.subspan(1);
        tokens.push_back(!learned.empty() && learned.front().begin <= begin ? 1 : 0);
    }
    return tokens;
}

LearnedMarks learned_marks() {
    if (stdout_shows_colours()) return {"\x1b[32m", "\x1b[0m"};
    return {"{+", "+}"};
}

void check_ids(const Tokenizer& tokenizer, std::span<const std::int32_t> ids,
               const std::filesystem::path& prefix, std::int64_t document) {
    const std::int64_t vocabulary = tokenizer.vocab_size();
    const auto bad = std::find_if(ids.begin(), ids.end(),
                                  [&](std::int32_t id) { return id < 0 || id >= vocabulary; });
    if (bad == ids.end()) return;
    fail(ExitCode::bad_input, prefix.string(), ".bin: document ", document, ", token ",
         bad - ids.begin(), ": id ", *bad, " is outside the tokenizer's vocabulary of ", vocabulary,
         "; give the tokenizer that made the files, or make them again");
}

std::string show_learned(const Tokenizer& tokenizer, std::span<const std::int32_t> ids,
                         std::span<const std::uint8_t> learned, const LearnedMarks& marks) {
    StreamDecoder decoder(tokenizer);
    std::string shown;
    bool inside = false;
    const auto enter = [&](bool now) {
        if (now != inside) shown += now ? marks.begin : marks.end;
        inside = now;
    };
    for (std::size_t i = 0; i < ids.size(); ++i) {
        enter(learned[i] != 0);
        shown += without_controls(decoder.push(ids[i]));
        shown += without_controls(tokenizer.mark(ids[i]));
    }
    shown += without_controls(decoder.finish());
    enter(false);
    return shown;
}

}  // namespace gptrain
