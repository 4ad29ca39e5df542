#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>

#include "base/json.h"
#include "base/text.h"
#include "planner/timeline.h"

namespace gptrain {
namespace {

constexpr std::int64_t process = 0;

/// Groups of threads of a stage. All stages have as many lanes of each group as the stage that
/// needs the most.
enum Row { computing, messages, operations, rows };
constexpr std::array<std::string_view, rows> row_names = {"", " messages", " operations"};

struct Bar {
    std::int64_t stage;
    Row row;
    double begin;
    double end;
    std::optional<double> wait;  ///< when the stage starts to wait
    std::string name;
    std::string category;
    Json args;
    std::int64_t lane = 0;  ///< of the row
};

Bar bar_of(const TimelineEvent& event, std::int64_t chunks) {
    std::string name = text(name_of(event.kind), event.microbatch);
    if (chunks > 1) name += text('.', event.chunk);
    return {.stage = event.stage,
            .row = computes(event.kind) ? computing : messages,
            .begin = event.begin,
            .end = event.end,
            .wait = {},
            .name = name,
            .category = std::string(name_of(event.kind)),
            .args = {{"microbatch", event.microbatch}, {"chunk", event.chunk}}};
}

Bar bar_of(const TimelineOperation& operation) {
    return {.stage = operation.stage,
            .row = operations,
            .begin = operation.begin,
            .end = operation.end,
            .wait = operation.wait,
            .name = operation.name,
            .category = "operation",
            .args = Json::object()};
}

std::vector<Bar> bars_of(const Timeline& timeline) {
    std::vector<Bar> bars;
    for (const TimelineEvent& event : timeline.events)
        bars.push_back(bar_of(event, timeline.chunks));
    for (const TimelineOperation& operation : timeline.operations)
        bars.push_back(bar_of(operation));
    return bars;
}

/// Assigns bars of a row to lanes so that bars in a lane never overlap; viewers would show overlap
/// as nesting. Returns the number of lanes of each row.
std::array<std::int64_t, rows> assign_lanes(std::vector<Bar>& bars) {
    std::stable_sort(bars.begin(), bars.end(),
                     [](const Bar& a, const Bar& b) { return a.begin < b.begin; });
    std::map<std::pair<std::int64_t, Row>, std::vector<double>> ends;
    std::array<std::int64_t, rows> lanes = {1, 0, 0};
    for (Bar& bar : bars) {
        if (bar.row == computing) continue;
        std::vector<double>& taken = ends[{bar.stage, bar.row}];
        auto lane =
            std::find_if(taken.begin(), taken.end(), [&](double end) { return end <= bar.begin; });
        if (lane == taken.end()) lane = taken.insert(lane, 0);
        *lane = bar.end;
        bar.lane = lane - taken.begin();
        lanes[bar.row] = std::max(lanes[bar.row], bar.lane + 1);
    }
    return lanes;
}

Json metadata(std::string_view what, std::int64_t thread, Json args) {
    return {
        {"name", what}, {"ph", "M"}, {"pid", process}, {"tid", thread}, {"args", std::move(args)}};
}

Json duration(const Bar& bar, double start, std::int64_t thread) {
    // Whole nanoseconds, so that rounding never makes adjacent bars overlap.
    const double begin = std::round((bar.begin - start) * 1e9);
    const double end = std::round((bar.end - start) * 1e9);
    return {{"name", bar.name},
            {"cat", bar.category},
            {"ph", "X"},
            {"pid", process},
            {"tid", thread},
            {"ts", begin / 1000},
            {"dur", (end - begin) / 1000},
            {"args", bar.args}};
}

/// The part of an operation during which the stage waits for it; viewers nest it inside.
Bar wait_of(const Bar& bar) {
    Bar wait = bar;
    wait.begin = *bar.wait;
    wait.name = wait.category = "wait";
    return wait;
}

}  // namespace

std::string to_trace_json(const Timeline& timeline) {
    std::vector<Bar> bars = bars_of(timeline);
    const std::array<std::int64_t, rows> lanes = assign_lanes(bars);
    std::array<std::int64_t, rows + 1> first{};
    std::partial_sum(lanes.begin(), lanes.end(), first.begin() + 1);
    const std::int64_t pitch = first[rows];
    std::string out = "{\"traceEvents\": [\n";
    out += to_line(metadata("process_name", 0, {{"name", timeline.title}}));
    for (std::int64_t thread = 0; thread < timeline.stages * pitch; ++thread) {
        const auto row = std::upper_bound(first.begin(), first.end(), thread % pitch) - 1;
        const std::string name = text("stage ", thread / pitch,
                                      row_names[static_cast<std::size_t>(row - first.begin())]);
        out += ",\n" + to_line(metadata("thread_name", thread, {{"name", name}}));
        out += ",\n" + to_line(metadata("thread_sort_index", thread, {{"sort_index", thread}}));
    }
    const double start = span_of(timeline).begin;
    for (const Bar& bar : bars) {
        const std::int64_t thread = bar.stage * pitch + first[bar.row] + bar.lane;
        out += ",\n" + to_line(duration(bar, start, thread));
        if (bar.wait) out += ",\n" + to_line(duration(wait_of(bar), start, thread));
    }
    return out + text("\n],\n\"displayTimeUnit\": \"ms\",\n\"otherData\": {\"bubble\": ",
                      bubble(timeline), "}}\n");
}

}  // namespace gptrain
