// Ends a stream of text before any of given texts, however the stream is cut into pieces.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace gptrain {

class StopTexts {
public:
    /// `texts`: none of them empty.
    explicit StopTexts(std::vector<std::string> texts) : texts_(std::move(texts)) {}

    /// Adds a piece to the stream. Returns what can be shown now: a stop text and what follows it
    /// never is, and an end that may become a stop text waits.
    std::string push(std::string_view piece);
    /// The text that still waits, at the end of the stream.
    std::string finish();
    /// True once the stream has a stop text.
    bool found() const { return found_; }

private:
    /// The length of the longest end of the pending text with which a stop text begins.
    std::size_t waiting() const;

    std::vector<std::string> texts_;
    std::string pending_;
    bool found_ = false;
};

}  // namespace gptrain
