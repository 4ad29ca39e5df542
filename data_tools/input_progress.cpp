#include "input_progress.h"

#include <algorithm>
#include <string>

#include "base/clock.h"
#include "base/log.h"

namespace gptrain {

void InputProgress::show(std::int64_t bytes, std::int64_t tokens) {
    if (!stdout_is_terminal()) return log(bytes, tokens);
    const auto now = Clock::now();
    if (now - shown_ < std::chrono::milliseconds(200)) return;
    shown_ = now;
    show_status(line(bytes, tokens));
}

void InputProgress::log(std::int64_t bytes, std::int64_t tokens) {
    const auto now = Clock::now();
    if (now - shown_ < std::chrono::minutes(1)) return;
    shown_ = now;
    print(line(bytes, tokens));
}

std::string InputProgress::line(std::int64_t bytes, std::int64_t tokens) const {
    const double rate = static_cast<double>(bytes) / std::max(seconds(), 1e-3);
    std::string line = human_bytes(bytes);
    if (total_ && *total_ > 0) {
        line += text(" of ", human_bytes(*total_), " (", 100 * bytes / *total_, " %)");
    }
    line += text(", ", human_bytes(static_cast<std::int64_t>(rate)), "/s, ", tokens, " tokens");
    if (total_ && rate > 0) {
        line += text(", ", human_time(static_cast<double>(*total_ - bytes) / rate), " left");
    }
    return line;
}

double InputProgress::seconds() const {
    return seconds_since(start_);
}

}  // namespace gptrain
