// The progress of reading the input: one line, updated in place on a terminal.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

namespace gptrain {

class Progress {
public:
    explicit Progress(std::optional<std::int64_t> total_bytes) : total_(total_bytes) {}
    /// Updates the line, at most five times a second.
    void show(std::int64_t bytes, std::int64_t tokens);
    double seconds() const;

private:
    using Clock = std::chrono::steady_clock;
    std::optional<std::int64_t> total_;
    Clock::time_point start_ = Clock::now();
    Clock::time_point shown_ = start_;
};

}  // namespace gptrain
