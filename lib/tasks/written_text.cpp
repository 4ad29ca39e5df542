#include "tasks/written_text.h"

#include <algorithm>

#include "base/error.h"

namespace gptrain {

std::vector<std::string> stop_texts_of(const WriteRequest& request) {
    std::vector<std::string> texts;
    for (const BlockText& stop : request.spec->stop)
        texts.push_back(stop.text);
    if (!request.end_of_turn.empty()) texts.push_back(request.end_of_turn);
    return texts;
}

std::int64_t longest_text(std::span<const WriteRequest> requests) {
    std::int64_t longest = 0;
    for (const WriteRequest& request : requests)
        longest = std::max(longest, std::ssize(request.prompt) + request.spec->max_tokens);
    return longest;
}

WrittenText::WrittenText(const WriteRequest& request, const WritingRules& rules)
    : rules_(rules),
      tokens_(request.prompt),
      left_(std::min(request.spec->max_tokens, rules.most_tokens - std::ssize(tokens_))),
      stop_(stop_texts_of(request)),
      decoder_(rules.tokenizer),
      has_ended_(left_ <= 0) {
    for (const std::int32_t id : tokens_)
        decoder_.push(id);
}

void WrittenText::push(std::int32_t id) {
    GPTRAIN_CHECK(!has_ended_);
    has_ended_ = rules_.ends.contains(id);
    if (has_ended_) return;
    tokens_.push_back(id);
    output_ += stop_.push(decoder_.push(id));
    has_ended_ = --left_ == 0 || stop_.found();
}

std::string WrittenText::finish() {
    output_ += stop_.push(decoder_.finish());
    return output_ + stop_.finish();
}

}  // namespace gptrain
