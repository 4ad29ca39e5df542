#include "text/stop_texts.h"

#include <algorithm>

namespace gptrain {

std::string StopTexts::push(std::string_view piece) {
    if (found_) return "";
    pending_ += piece;
    std::size_t end = pending_.npos;
    for (const std::string& text : texts_)
        end = std::min(end, pending_.find(text));
    found_ = end != pending_.npos;
    if (!found_) end = pending_.size() - waiting();
    std::string shown = pending_.substr(0, end);
    pending_.erase(0, found_ ? pending_.size() : end);
    return shown;
}

std::string StopTexts::finish() {
    std::string rest;
    rest.swap(pending_);
    return rest;
}

std::size_t StopTexts::waiting() const {
    std::size_t longest = 0;
    for (const std::string& text : texts_) {
        std::size_t length = std::min(text.size() - 1, pending_.size());
        while (!std::string_view(pending_).ends_with(std::string_view(text).substr(0, length)))
            --length;
        longest = std::max(longest, length);
    }
    return longest;
}

}  // namespace gptrain
