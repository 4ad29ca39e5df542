#include "planner/timeline_view.h"

#include <algorithm>
#include <map>

namespace gptrain {
namespace {

// Pixels.
constexpr double widest = 2400;  // all windows together
constexpr double gap = 90;       // between two windows
constexpr double action_width = 22;
constexpr double narrowest_action_width = 5;

/// Seconds until every stage has finished its first backward action: the warmup.
double warmup_of(const Timeline& timeline, const TimeSpan& span) {
    std::map<std::int64_t, double> first;
    for (const TimelineEvent& event : timeline.events) {
        if (!computes(event.kind) || event.kind == ActionKind::forward) continue;
        const auto [found, added] = first.try_emplace(event.stage, event.end);
        found->second = std::min(found->second, event.end);
    }
    double latest = span.begin;
    for (const auto& [stage, end] : first) {
        latest = std::max(latest, end);
    }
    return latest - span.begin;
}

double mean_action(const Timeline& timeline) {
    double sum = 0;
    double count = 0;
    for (const TimelineEvent& event : timeline.events) {
        if (!computes(event.kind)) continue;
        sum += event.end - event.begin;
        ++count;
    }
    return sum / count;
}

}  // namespace

TimeSpan shown_time(const Timeline& timeline) {
    TimeSpan time = span_of(timeline);
    for (const TimelineOperation& operation : timeline.operations) {
        time.begin = std::min(time.begin, operation.begin);
        time.end = std::max(time.end, operation.end);
    }
    return time;
}

View make_view(const Timeline& timeline, double left) {
    const TimeSpan span = shown_time(timeline);
    const double action = mean_action(timeline);
    const double wanted = 1.2 * warmup_of(timeline, span);
    double scale = action_width / action;
    if (span.seconds() * scale > widest && wanted > 0) {
        const double narrowed = std::max(widest / (2 * wanted), narrowest_action_width / action);
        scale = std::min(scale, narrowed);
    }
    if (span.seconds() * scale <= widest) return {{{span, left}}, scale};
    const double shown = widest / 2 / scale;
    const Window begin = {{span.begin, span.begin + shown}, left};
    const Window end = {{span.end - shown, span.end}, left + widest / 2 + gap};
    return {{begin, end}, scale};
}

}  // namespace gptrain
