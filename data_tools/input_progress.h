// The progress of reading the input: one line, updated in place on a terminal, or a line now and
// then.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace gptrain {

class InputProgress {
public:
    explicit InputProgress(std::optional<std::int64_t> total_bytes) : total_(total_bytes) {}
    /// Updates the line on a terminal, at most five times a second; elsewhere the same as `log`.
    void show(std::int64_t bytes, std::int64_t tokens);
    /// Prints a line at most once a minute: where a launcher forwards what ranks print, there is no
    /// terminal.
    void log(std::int64_t bytes, std::int64_t tokens);
    double seconds() const;

private:
    std::string line(std::int64_t bytes, std::int64_t tokens) const;

    using Clock = std::chrono::steady_clock;
    std::optional<std::int64_t> total_;
    Clock::time_point start_ = Clock::now();
    Clock::time_point shown_ = start_;
};

}  // namespace gptrain
