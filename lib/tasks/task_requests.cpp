#include "tasks/task_requests.h"

#include <algorithm>

#include "base/checked.h"
#include "base/error.h"
#include "chat/template_strings.h"

namespace gptrain {

TaskEncoder::TaskEncoder(const Tokenizer& tokenizer, std::int64_t max_length,
                         std::string_view tasks_key)
    : tokenizer_(tokenizer), max_length_(max_length), tasks_key_(tasks_key) {
    const auto prefix = tokenizer.bos_id() ? tokenizer.bos_id() : tokenizer.eos_id();
    if (!prefix) {
        fail(ExitCode::usage, tasks_key,
             ": the tokenizer has neither a begin-of-text nor an end-of-text token; scoring needs "
             "one to start a text");
    }
    prefix_ = *prefix;
}

std::vector<std::int32_t> TaskEncoder::encode(std::string_view text) const {
    if (encode_) return encode_(text);
    std::vector<std::int32_t> ids;
    tokenizer_.encode(text, ids);
    return ids;
}

void TaskEncoder::keep_last(std::vector<std::int32_t>& ids, std::int64_t count) {
    const std::int64_t excess = std::ssize(ids) - count;
    if (excess <= 0) return;
    ids.erase(ids.begin(), ids.begin() + excess);
    ++cut_;
}

ScoreRequest TaskEncoder::pair(std::string_view context, std::string_view continuation) {
    const std::string_view kept = strip_text(context, "", StripSides::right);
    ScoreRequest request = {.ids = encode(text(context, continuation))};
    const auto of_context = kept.empty() ? 0 : std::ssize(encode(kept));
    request.scored = std::ssize(request.ids) - of_context;
    if (kept.empty() && !request.ids.empty()) {
        if (request.ids.front() == prefix_) {
            --request.scored;
        } else {
            request.ids.insert(request.ids.begin(), prefix_);
        }
    }
    if (request.scored < 1) fail(ExitCode::bad_input, "a text to score has no tokens of its own");
    if (request.scored > max_length_) {
        fail(ExitCode::bad_input, "a text to score has ", request.scored,
             " tokens, but the model has only ", max_length_, " positions");
    }
    keep_last(request.ids, max_length_ + 1);
    return request;
}

std::vector<ScoreRequest> TaskEncoder::windows(std::string_view text) const {
    std::vector<std::int32_t> ids = encode(text);
    const std::int64_t tokens = std::ssize(ids);
    if (tokens == 0) fail(ExitCode::bad_input, "the text is empty");
    ids.insert(ids.begin(), prefix_);
    std::vector<ScoreRequest> requests;
    for (std::int64_t end = 0; end < tokens;) {
        const std::int64_t scored = std::min(tokens - end, max_length_);
        end += scored;
        const std::int64_t begin = std::max<std::int64_t>(end - max_length_, 0);
        requests.push_back({.ids = {ids.begin() + begin, ids.begin() + end + 1}, .scored = scored});
    }
    return requests;
}

std::vector<ScoreRequest> TaskEncoder::requests(const TaskItem& item, TaskKind kind) {
    std::vector<ScoreRequest> requests;
    try {
        if (kind == TaskKind::perplexity) return windows(item.text);
        if (kind == TaskKind::last_word) {
            const LastWord parts = last_word_of(item.text);
            return {pair(parts.context, parts.word)};
        }
        for (const std::string& prompt : item.prompts)
            for (const std::string& choice : item.choices)
                requests.push_back(pair(prompt, text(item.in_chat ? "" : " ", choice)));
    } catch (const Error& error) {
        if (error.code() != ExitCode::bad_input) throw;
        fail(ExitCode::bad_input, item.place, ": ", error.what());
    }
    return requests;
}

std::vector<std::int32_t> TaskEncoder::prompt(const TaskItem& item, const TaskSpec& spec) {
    std::vector<std::int32_t> ids = encode(item.prompts.front());
    if (ids.empty()) ids.push_back(prefix_);
    if (spec.max_tokens >= max_length_) {
        fail(ExitCode::usage, tasks_key_, ": max_tokens of ", spec.name, " is ", spec.max_tokens,
             ", but the model reads only ", max_length_, " tokens at a time; lower it to at most ",
             max_length_ - 1);
    }
    keep_last(ids, max_length_ - spec.max_tokens);
    return ids;
}

LastWord last_word_of(std::string_view text) {
    const std::size_t blank = text.rfind(' ');
    if (blank == text.npos) return {"", text};
    return {text.substr(0, blank), text.substr(blank)};
}

}  // namespace gptrain
