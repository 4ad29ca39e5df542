#include "base/file.h"
#include "base/json.h"
#include "planner/timeline.h"

namespace gptrain {
namespace {

constexpr std::int64_t process = 0;

/// A stage's compute and its messages are two threads.
std::int64_t thread_of(std::int64_t stage, bool messages) {
    return 2 * stage + (messages ? 1 : 0);
}

Json metadata(std::string_view what, std::int64_t thread, Json args) {
    return {
        {"name", what}, {"ph", "M"}, {"pid", process}, {"tid", thread}, {"args", std::move(args)}};
}

Json duration(const TimelineEvent& event, double start, std::int64_t chunks) {
    constexpr double microseconds = 1e6;
    const Action action = {event.kind, event.microbatch, event.chunk};
    return {{"name", to_text(action, chunks)},
            {"cat", name_of(event.kind)},
            {"ph", "X"},
            {"pid", process},
            {"tid", thread_of(event.stage, !computes(event.kind))},
            {"ts", (event.begin - start) * microseconds},
            {"dur", (event.end - event.begin) * microseconds},
            {"args", {{"microbatch", event.microbatch}, {"chunk", event.chunk}}}};
}

}  // namespace

void write_timeline_json(const std::filesystem::path& path, const Timeline& timeline) {
    std::string out = "{\"traceEvents\": [\n";
    out += to_line(metadata("process_name", 0, {{"name", timeline.title}}));
    for (std::int64_t stage = 0; stage < timeline.stages; ++stage) {
        for (const bool messages : {false, true}) {
            const std::int64_t thread = thread_of(stage, messages);
            const std::string name = text("stage ", stage, messages ? " messages" : "");
            out += ",\n" + to_line(metadata("thread_name", thread, {{"name", name}}));
            out += ",\n" + to_line(metadata("thread_sort_index", thread, {{"sort_index", thread}}));
        }
    }
    const double start = span_of(timeline).begin;
    for (const TimelineEvent& event : timeline.events) {
        out += ",\n" + to_line(duration(event, start, timeline.chunks));
    }
    out +=
        text("\n],\n\"displayTimeUnit\": \"ms\",\n\"otherData\": {\"bubble\": ", bubble(timeline),
             "}}\n");
    write_file_durably(path, out);
}

}  // namespace gptrain
