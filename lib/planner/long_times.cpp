#include "planner/long_times.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "base/at.h"
#include "engine/long_step.h"
#include "schedule/messages.h"

namespace gptrain {
namespace {

/// Sums of many times differ by roundings of this size.
constexpr double rounding = 1e-8;
/// Possible periods, in rounds of as many microbatches as there are stages.
constexpr std::array<std::int64_t, 3> rounds = {1, 2, 3};

/// The time from each entry to the one a period later, if that is always the same while the
/// pipeline is full.
std::optional<double> constant_time(const std::vector<double>& times, std::int64_t in_period,
                                    const PipelineShape& shape, std::int64_t period) {
    // Towards its end, the pipeline empties.
    const std::int64_t last = shape.microbatches - 3 * shape.stages - shape.deferred_heads;
    const std::int64_t first = last - 3 * shape.stages;
    if (first < period) return std::nullopt;
    std::optional<double> constant;
    for (std::int64_t i = first * in_period / period; i < last * in_period / period; ++i) {
        if (i < in_period || i >= std::ssize(times)) return std::nullopt;
        const double time = at(times, i) - at(times, i - in_period);
        if (!constant) constant = time;
        if (std::abs(time - *constant) > rounding * *constant) return std::nullopt;
    }
    return constant;
}

}  // namespace

Tracks tracks_of(const Timeline& timeline) {
    Tracks tracks;
    for (const TimelineEvent& event : timeline.events) {
        tracks[{.stage = event.stage, .kind = event.kind, .index = event.chunk}].push_back(
            event.end);
    }
    return tracks;
}

bool repeats(const Tracks& tracks, const Tracks& longer, const PipelineShape& shape,
             std::int64_t period) {
    // With gpipe all F come first, and take a different time than the later actions.
    const bool apart = shape.kind == ScheduleKind::gpipe;
    std::map<bool, double> period_seconds;
    std::map<std::int64_t, double> host_lead;  // that a stage's host gains in a period
    for (const auto& [key, times] : tracks) {
        const auto found = longer.find(key);
        if (found == longer.end() || found->second.size() <= times.size()) continue;
        const std::int64_t in_period = std::ssize(found->second) - std::ssize(times);
        const std::optional<double> seconds = constant_time(times, in_period, shape, period);
        if (!seconds) return false;
        const double expected =
            period_seconds.try_emplace(apart && moves_forward(key.kind), *seconds).first->second;
        double difference = expected - *seconds;
        if (key.clock == TrackKey::Clock::host) {
            double& lead = host_lead[key.stage];
            lead += difference;
            difference = std::min(0.0, lead);
        }
        if (std::abs(difference) > rounding * expected) return false;
    }
    return true;
}

std::vector<double> times_of_step(
    const PipelineShape& shape, std::int64_t full,
    const std::function<SimulatedStep(std::int64_t microbatches)>& simulate) {
    const std::int64_t count = shape.microbatches;
    for (; count > most_executed && 4 * full < count; full *= 2) {
        for (const std::int64_t round : rounds) {
            const std::int64_t period = round * shape.stages;
            PipelineShape shorter = shape;
            shorter.microbatches = full + period + (count - full) % period;
            const SimulatedStep step = simulate(shorter.microbatches);
            const SimulatedStep longer = simulate(shorter.microbatches + period);
            if (!repeats(step.tracks, longer.tracks, shorter, period)) continue;
            const std::int64_t periods = (count - shorter.microbatches) / period;
            std::vector<double> times = step.times;
            for (std::size_t i = 0; i < times.size(); ++i)
                times[i] += static_cast<double>(periods) * (longer.times[i] - times[i]);
            return times;
        }
    }
    return simulate(count).times;
}

}  // namespace gptrain
