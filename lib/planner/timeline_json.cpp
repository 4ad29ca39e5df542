#include <algorithm>
#include <cmath>

#include "base/file.h"
#include "base/json.h"
#include "planner/timeline.h"

namespace gptrain {
namespace {

constexpr std::int64_t process = 0;

/// For each event its lane: 0 for compute, from 1 on for messages, so that no two events of a
/// stage's lane overlap, which viewers would take for nesting.
std::vector<std::int64_t> assign_lanes(const Timeline& timeline) {
    std::vector<std::size_t> by_begin;
    for (std::size_t i = 0; i < timeline.events.size(); ++i) {
        if (!computes(timeline.events[i].kind)) by_begin.push_back(i);
    }
    std::stable_sort(by_begin.begin(), by_begin.end(), [&](std::size_t a, std::size_t b) {
        return timeline.events[a].begin < timeline.events[b].begin;
    });
    std::vector<std::int64_t> lanes(timeline.events.size());
    std::vector<std::vector<double>> ends(static_cast<std::size_t>(timeline.stages));
    for (const std::size_t i : by_begin) {
        const TimelineEvent& event = timeline.events[i];
        std::vector<double>& taken = ends[static_cast<std::size_t>(event.stage)];
        auto lane = std::find_if(taken.begin(), taken.end(),
                                 [&](double end) { return end <= event.begin; });
        if (lane == taken.end()) lane = taken.insert(lane, 0);
        *lane = event.end;
        lanes[i] = lane - taken.begin() + 1;
    }
    return lanes;
}

Json metadata(std::string_view what, std::int64_t thread, Json args) {
    return {
        {"name", what}, {"ph", "M"}, {"pid", process}, {"tid", thread}, {"args", std::move(args)}};
}

Json duration(const TimelineEvent& event, double start, std::int64_t thread, std::int64_t chunks) {
    // Whole nanoseconds: what follows without a gap must not overlap by a rounding error.
    const double begin = std::round((event.begin - start) * 1e9);
    const double end = std::round((event.end - start) * 1e9);
    std::string name = text(name_of(event.kind), event.microbatch);
    if (chunks > 1) name += text('.', event.chunk);
    return {{"name", name},
            {"cat", name_of(event.kind)},
            {"ph", "X"},
            {"pid", process},
            {"tid", thread},
            {"ts", begin / 1000},
            {"dur", (end - begin) / 1000},
            {"args", {{"microbatch", event.microbatch}, {"chunk", event.chunk}}}};
}

}  // namespace

void write_timeline_json(const std::filesystem::path& path, const Timeline& timeline) {
    const std::vector<std::int64_t> lanes = assign_lanes(timeline);
    const std::int64_t pitch =
        lanes.empty() ? 1 : *std::max_element(lanes.begin(), lanes.end()) + 1;
    std::string out = "{\"traceEvents\": [\n";
    out += to_line(metadata("process_name", 0, {{"name", timeline.title}}));
    for (std::int64_t thread = 0; thread < timeline.stages * pitch; ++thread) {
        const bool messages = thread % pitch != 0;
        const std::string name = text("stage ", thread / pitch, messages ? " messages" : "");
        out += ",\n" + to_line(metadata("thread_name", thread, {{"name", name}}));
        out += ",\n" + to_line(metadata("thread_sort_index", thread, {{"sort_index", thread}}));
    }
    const double start = span_of(timeline).begin;
    for (std::size_t i = 0; i < timeline.events.size(); ++i) {
        const TimelineEvent& event = timeline.events[i];
        const std::int64_t thread = event.stage * pitch + lanes[i];
        out += ",\n" + to_line(duration(event, start, thread, timeline.chunks));
    }
    out +=
        text("\n],\n\"displayTimeUnit\": \"ms\",\n\"otherData\": {\"bubble\": ", bubble(timeline),
             "}}\n");
    write_file_durably(path, out);
}

}  // namespace gptrain
