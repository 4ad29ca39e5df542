#include "planner/timeline.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/error.h"

namespace gptrain {

TimeSpan span_of(const Timeline& timeline) {
    constexpr double infinity = std::numeric_limits<double>::infinity();
    TimeSpan span = {infinity, -infinity};
    for (const TimelineEvent& event : timeline.events) {
        if (!computes(event.kind)) continue;
        span.begin = std::min(span.begin, event.begin);
        span.end = std::max(span.end, event.end);
    }
    GPTRAIN_CHECK(span.begin <= span.end, "a timeline without a compute action");
    return span;
}

double busy_seconds(const Timeline& timeline) {
    std::vector<double> busy(static_cast<std::size_t>(timeline.stages));
    for (const TimelineEvent& event : timeline.events) {
        if (computes(event.kind))
            busy[static_cast<std::size_t>(event.stage)] += event.end - event.begin;
    }
    return std::accumulate(busy.begin(), busy.end(), 0.0);
}

double bubble(const Timeline& timeline) {
    return static_cast<double>(timeline.stages) * span_of(timeline).seconds() /
               busy_seconds(timeline) -
           1;
}

}  // namespace gptrain
