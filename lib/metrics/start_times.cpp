#include "metrics/start_times.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <numeric>

#include "base/clock.h"
#include "base/process.h"
#include "base/text.h"

namespace gptrain {
namespace {

using Clock = std::chrono::steady_clock;

// Ranks exchange raw bytes: they run one program on one kind of machine.
std::string to_bytes(const StartSeconds& seconds) {
    return {reinterpret_cast<const char*>(seconds.data()), sizeof seconds};
}

StartSeconds from_bytes(const std::string& bytes) {
    StartSeconds seconds{};
    std::memcpy(seconds.data(), bytes.data(), std::min(bytes.size(), sizeof seconds));
    return seconds;
}

std::string row(std::string_view name, double seconds, std::string_view note) {
    constexpr std::size_t name_width = 16;
    constexpr std::size_t width = 8;
    std::string line = text("  ", name);
    line.resize(std::max(line.size() + 1, name_width), ' ');
    const std::string number = fixed(seconds, seconds < 100 ? 2 : 0);
    line += std::string(width - std::min(width, number.size()), ' ') + number;
    return note.empty() ? line : text(line, "  ", note);
}

}  // namespace

StartTimes::StartTimes()
    : began_(Clock::now() - std::chrono::duration_cast<Clock::duration>(
                                std::chrono::duration<double>(seconds_of_process()))),
      since_(began_) {}

void StartTimes::begin(StartPhase phase) {
    end();
    phase_ = phase;
    ended_ = false;
}

void StartTimes::end() {
    const Clock::time_point now = Clock::now();
    const std::chrono::duration<double> passed = now - since_;
    if (!ended_) seconds_[static_cast<std::size_t>(phase_)] += passed.count();
    since_ = now;
    ended_ = true;
}

StartSeconds slowest(const StartSeconds& own, const MpiSession& ranks) {
    const auto larger = [](const std::string& lower, const std::string& higher) {
        StartSeconds most = from_bytes(lower);
        const StartSeconds other = from_bytes(higher);
        for (std::size_t i = 0; i < most.size(); ++i)
            most[i] = std::max(most[i], other[i]);
        return to_bytes(most);
    };
    return from_bytes(ranks.reduce(to_bytes(own), larger));
}

std::optional<double> seconds_since_failure() {
    const char* failed = std::getenv("GPTRAIN_FAILED");
    const auto time = failed == nullptr ? std::nullopt : parse_int(failed);
    if (!time) return std::nullopt;
    const double seconds = unix_seconds() - static_cast<double>(*time);
    // Clocks of nodes may differ.
    return std::max(seconds, 0.0);
}

std::vector<std::string> start_table(const StartReport& report) {
    const double sum = std::accumulate(report.seconds.begin(), report.seconds.end(), 0.0);
    const double least = std::max(0.05, 0.01 * sum);
    std::vector<std::string> lines = {
        text("start: ", fixed(sum, 1),
             " s until the end of the first step; seconds of each phase, of the slowest rank:")};
    for (const auto& [phase, name] : words_of(StartPhase{})) {
        const double seconds = report.seconds[static_cast<std::size_t>(phase)];
        if (seconds < least) continue;
        lines.push_back(row(name, seconds, phase == StartPhase::load ? report.loaded : ""));
    }
    if (report.repeated) lines.push_back(row("repeated", *report.repeated, "of training"));
    if (report.since_failure) lines.push_back(row("since failure", *report.since_failure, ""));
    return lines;
}

}  // namespace gptrain
