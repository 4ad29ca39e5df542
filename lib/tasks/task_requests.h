// The questions of a task as tokens.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tasks/score_request.h"
#include "tasks/task_items.h"
#include "tokenizer/tokenizer.h"

namespace gptrain {

/// Makes requests by the rules of lm-evaluation-harness (0.4.13), so that a model reads the same
/// tokens.
class TaskEncoder {
public:
    /// `max_length`: the tokens that a model reads at a time. Error (usage) if the tokenizer has
    /// neither a begin-of-text nor an end-of-text token: one of them stands before a text without a
    /// context; the message begins with `tasks_key`. The tokenizer must outlive it.
    TaskEncoder(const Tokenizer& tokenizer, std::int64_t max_length,
                std::string_view tasks_key = "--task");

    /// From now on texts are encoded so, instead of by Tokenizer::encode.
    void encode_by(std::function<std::vector<std::int32_t>(std::string_view)> encode) {
        encode_ = std::move(encode);
    }

    /// One for each choice, for last_word one, for perplexity one for each window; none for
    /// exact_match. Errors (bad_input) name the document.
    std::vector<ScoreRequest> requests(const TaskItem& item, TaskKind kind);
    /// The prompt of exact_match, cut on the left so that the task's max_tokens more fit. Error
    /// (usage), which begins with `tasks_key`, if the model does not read so many.
    std::vector<std::int32_t> prompt(const TaskItem& item, const TaskSpec& spec);

    /// How many texts were cut on the left.
    std::int64_t cut() const { return cut_; }

private:
    std::vector<std::int32_t> encode(std::string_view text) const;
    /// Scores the continuation. Trailing white space of the context moves to the continuation.
    /// Context and continuation are tokenized together and split at the token count of the context
    /// alone. Too long a text is cut on the left.
    ScoreRequest pair(std::string_view context, std::string_view continuation);
    /// Scores the whole text in windows of at most max_length tokens, each token once. The last
    /// window begins earlier, so that it is as long as the others.
    std::vector<ScoreRequest> windows(std::string_view text) const;
    void keep_last(std::vector<std::int32_t>& ids, std::int64_t count);

    const Tokenizer& tokenizer_;
    std::int64_t max_length_;
    std::string tasks_key_;
    std::function<std::vector<std::int32_t>(std::string_view)> encode_;
    std::int32_t prefix_ = 0;  ///< before a text without a context: the tokenizer's bos, else eos
    std::int64_t cut_ = 0;
};

/// The bytes of a text's last word with the space before it, and what comes before, divided at the
/// last space.
struct LastWord {
    std::string_view context;
    std::string_view word;
};
LastWord last_word_of(std::string_view text);

}  // namespace gptrain
