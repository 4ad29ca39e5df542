#include "chat/conversation.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/utf8.h"
#include "chat/template_strings.h"

namespace gptrain {
namespace {

bool is_assistant(const Json& message) {
    return message.at("role") == "assistant";
}

std::size_t common_prefix(std::string_view a, std::string_view b) {
    const auto differ = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
    return static_cast<std::size_t>(differ.first - a.begin());
}

float weight_of(const LearnedMessages& conversation, std::size_t at) {
    const auto found = conversation.weights.find(at);
    return found == conversation.weights.end() ? 1.0f : found->second;
}

/// Gives the learned parts of a text the weights of their messages, and removes those of weight 0.
void weigh(const LearnedMessages& conversation, LearnedText& text) {
    const Json& messages = conversation.messages;
    text.weights.assign(text.learned.size(), 1.0f);
    if (conversation.weights.empty()) return;
    const auto turns = std::count_if(messages.begin(), messages.end(), is_assistant);
    if (turns != std::ssize(text.learned)) {
        fail(ExitCode::bad_input, "the template encloses ", text.learned.size(),
             " texts in {% generation %} for ", turns, " messages of the assistant, so it is ",
             "not known which has a weight; leave that message or its weight out");
    }
    LearnedText rest;
    auto range = text.learned.begin();
    for (std::size_t at = 0; at < messages.size(); ++at) {
        if (!is_assistant(messages[at])) continue;
        const float weight = weight_of(conversation, at);
        if (weight > 0) {
            rest.learned.push_back(*range);
            rest.weights.push_back(weight);
        }
        ++range;
    }
    text.learned = std::move(rest.learned);
    text.weights = std::move(rest.weights);
}

/// The texts of one message of the assistant with a template that has no {% generation %}.
class Turn {
public:
    Turn(const ChatTemplate& chat_template, const LearnedMessages& conversation,
         const Json& variables, std::size_t at)
        : chat_template_(chat_template),
          conversation_(conversation),
          variables_(variables),
          at_(at) {
        for (std::size_t i = 0; i < at; ++i)
            before_.push_back(conversation.messages[i]);
    }

    /// The text in which the message is the last.
    LearnedText last() const {
        LearnedText said = {render(with(conversation_.messages[at_]), false), {}, {}};
        said.learned.push_back({answer_begin(said.text), said.text.size()});
        said.weights.push_back(weight_of(conversation_, at_));
        require_reasoning(said);
        return said;
    }

private:
    [[noreturn]] void refuse(const auto&... parts) const {
        fail(ExitCode::bad_input, conversation_.name, "[", at_, "]: ", parts...);
    }

    Json with(const Json& message) const {
        Json messages = before_;
        messages.push_back(message);
        return messages;
    }

    std::string render(const Json& messages, bool prompt) const {
        return render_messages(chat_template_, messages, variables_, prompt, conversation_.name);
    }

    std::string prompt() const {
        try {
            return render(before_, true);
        } catch (const Error& error) {
            if (at_ > 0 || error.code() != ExitCode::bad_input) throw;
            refuse(
                "the conversation begins with the assistant, and the template renders no text "
                "before it (",
                error.what(),
                "); begin with a message of the user, or use a template with {% generation %}");
        }
    }

    /// Where the answer begins in the text `said`.
    std::size_t answer_begin(const std::string& said) const {
        const std::string asked = prompt();
        if (said.starts_with(asked)) return asked.size();
        // The generation prompt may end with what the answer lacks, such as the begin of a thought.
        // Two other answers, which have nothing in common, keep the answer's own text out of what
        // it has in common with the prompt.
        std::size_t begin = common_prefix(asked, said);
        for (const char* answer : {"A", "B"}) {
            const Json message = {{"role", "assistant"}, {"content", answer}};
            begin = std::min(begin, common_prefix(asked, render(with(message), false)));
        }
        const std::size_t before = common_prefix(asked, render(before_, false));
        begin = before_mark(asked, before, begin);
        if (begin > before) return begin;
        refuse(
            "the template does not write the answer behind its generation prompt (their texts "
            "differ from byte ",
            common_prefix(asked, said),
            " on), so what the assistant says cannot be determined; use a template with "
            "{% generation %}");
    }

    /// The place `at`, or the begin of the mark <...> behind `first` that it is inside of.
    static std::size_t before_mark(std::string_view text, std::size_t first, std::size_t at) {
        if (at <= first) return at;
        const std::string_view between = text.substr(first, at - first);
        const std::size_t open = between.rfind('<');
        const std::size_t close = between.rfind('>');
        if (open != between.npos && (close == between.npos || close < open)) return first + open;
        return at < text.size() ? character_start(text, at) : at;
    }

    /// Refuses a text that lacks the reasoning of the message.
    void require_reasoning(const LearnedText& said) const {
        const Json& message = conversation_.messages[at_];
        const std::string_view learned =
            std::string_view(said.text).substr(said.learned.front().begin);
        const auto require = [&](std::string_view thought, std::string_view where) {
            constexpr std::string_view opening = "<think>";
            thought = strip_text(thought, "", StripSides::both);
            if (thought.starts_with(opening)) thought.remove_prefix(opening.size());
            thought = strip_text(thought, "", StripSides::both);
            if (thought.empty() || learned.find(thought) != learned.npos) return;
            refuse("the template leaves out the reasoning (", where,
                   "), so it cannot be learned; use a template that writes it, or remove it");
        };
        const auto content = message.find("content");
        if (content != message.end() && content->is_string()) {
            const std::string_view words = content->get_ref<const std::string&>();
            const std::size_t end = words.rfind("</think>");
            if (end != words.npos) require(words.substr(0, end), "the text before </think>");
        }
        for (const char* key : {"reasoning_content", "thinking", "reasoning"}) {
            const auto found = message.find(key);
            if (found != message.end() && found->is_string())
                require(found->get_ref<const std::string&>(), key);
        }
    }

    const ChatTemplate& chat_template_;
    const LearnedMessages& conversation_;
    const Json& variables_;
    std::size_t at_;
    Json before_ = Json::array();
};

/// Adds the learned part of a turn to the text that begins with the turn's, or that text itself.
/// `texts` are those of later turns, the last one first.
void add_turn(LearnedText turn, std::vector<LearnedText>& texts) {
    const TextRange learned = turn.learned.front();
    for (LearnedText& text : texts) {
        const bool apart = text.learned.empty() || learned.end <= text.learned.front().begin;
        if (!apart || !text.text.starts_with(turn.text)) continue;
        text.learned.insert(text.learned.begin(), learned);
        text.weights.insert(text.weights.begin(), turn.weights.front());
        return;
    }
    texts.push_back(std::move(turn));
}

}  // namespace

std::string render_messages(const ChatTemplate& chat_template, const Json& messages,
                            const Json& variables, bool add_generation_prompt,
                            std::string_view name) {
    // Of longer conversations the message is not looked for.
    constexpr std::size_t most_messages = 4096;
    std::string what;
    const auto fails_so = [&](std::size_t count) {
        Json some = Json::array();
        for (std::size_t i = 0; i < count; ++i)
            some.push_back(messages[i]);
        try {
            chat_template.render(some, variables, add_generation_prompt);
        } catch (const Error& error) {
            return error.what() == what;
        }
        return false;
    };
    try {
        return chat_template.render(messages, variables, add_generation_prompt);
    } catch (const Error& error) {
        what = error.what();
        if (error.code() != ExitCode::bad_input || messages.size() > most_messages || fails_so(0))
            throw;
    }
    std::size_t right = 0;
    std::size_t wrong = messages.size();
    while (wrong - right > 1) {
        const std::size_t middle = right + (wrong - right) / 2;
        (fails_so(middle) ? wrong : right) = middle;
    }
    fail(ExitCode::bad_input, name, "[", right, "]: ", what);
}

std::vector<LearnedText> render_learned(const ChatTemplate& chat_template,
                                        const LearnedMessages& conversation,
                                        const Json& variables) {
    const Json& messages = conversation.messages;
    const bool marked = chat_template.marks_generation();
    const auto turns = std::count_if(messages.begin(), messages.end(), is_assistant);
    if (!marked && turns > max_learned_turns) {
        fail(ExitCode::bad_input, "has ", turns, " messages of the assistant, but without ",
             "{% generation %} in the template the limit is ", max_learned_turns,
             "; split the conversation");
    }
    std::vector<LearnedText> texts(1);
    texts[0].text = render_messages(chat_template, messages, variables, false, conversation.name);
    if (marked) {
        chat_template.render(messages, variables, texts[0].learned);
        weigh(conversation, texts[0]);
        return texts;
    }
    std::size_t bytes = 0;
    for (std::size_t at = messages.size(); at-- > 0;) {
        if (!is_assistant(messages[at]) || weight_of(conversation, at) == 0) continue;
        add_turn(Turn(chat_template, conversation, variables, at).last(), texts);
        bytes = std::accumulate(
            texts.begin(), texts.end(), std::size_t{0},
            [](std::size_t sum, const LearnedText& text) { return sum + text.text.size(); });
        if (bytes > std::size_t{max_learned_bytes})
            fail(ExitCode::bad_input, "its texts have more than ", max_learned_bytes,
                 " bytes, one for each message that the template writes otherwise once others "
                 "follow; split the conversation");
    }
    std::erase_if(texts, [](const LearnedText& text) { return text.learned.empty(); });
    std::reverse(texts.begin(), texts.end());
    return texts;
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

std::vector<float> token_weights(std::span<const std::size_t> begins, const LearnedText& text) {
    std::vector<float> weights;
    weights.reserve(begins.size());
    std::size_t part = 0;
    for (const std::size_t begin : begins) {
        while (part < text.learned.size() && text.learned[part].end <= begin)
            ++part;
        const bool inside = part < text.learned.size() && text.learned[part].begin <= begin;
        weights.push_back(inside ? text.weights[part] : 0.0f);
    }
    return weights;
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
