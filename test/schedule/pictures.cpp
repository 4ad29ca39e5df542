// Timelines as files.
#include <algorithm>
#include <map>

#include "base/json.h"
#include "base/text.h"
#include "catch.h"
#include "pipelines.h"
#include "support/temp_folder.h"

using namespace gptrain;
using gptrain::test::contains;

namespace {

Timeline unit_timeline(const PipelineShape& shape) {
    return simulate(make_pipeline(shape), unit_costs(shape));
}

/// The fault of a document of tags, attributes and text; empty if there is none.
std::string xml_fault(const std::string& xml) {
    std::vector<std::string> open;
    for (std::size_t at = 0; at < xml.size();) {
        if (xml[at] == '&') {
            const std::string_view rest = std::string_view(xml).substr(at);
            const bool known =
                rest.starts_with("&amp;") || rest.starts_with("&lt;") || rest.starts_with("&gt;");
            if (!known) return text("a bare & at ", at);
        }
        if (xml[at] == '>') return text("a bare > at ", at);
        if (xml[at++] != '<') continue;
        const std::size_t end = xml.find('>', at);
        if (end == std::string::npos) return text("a tag without end at ", at);
        const std::string tag = xml.substr(at, end - at);
        if (tag.find('<') != std::string::npos) return text("a bare < at ", at);
        if (std::count(tag.begin(), tag.end(), '"') % 2 != 0) return "quotes in " + tag;
        const std::string name = tag.substr(0, tag.find_first_of(" /", 1));
        if (name[0] == '/') {
            if (open.empty() || "/" + open.back() != name) return "unexpected " + name;
            open.pop_back();
        } else if (tag.back() != '/') {
            open.push_back(name);
        }
        at = end + 1;
    }
    return open.empty() ? "" : open.back() + " is not closed";
}

}  // namespace

TEST_CASE("the picture of every pipeline is well-formed", "[schedule]") {
    for (const PipelineShape& shape : tested_shapes()) {
        INFO(name_of(shape));
        REQUIRE(xml_fault(to_svg(unit_timeline(shape))) == "");
    }
}

TEST_CASE("a picture says what it shows", "[schedule]") {
    Timeline timeline = unit_timeline({ScheduleKind::zero_bubble, 4, 1, 8});
    timeline.title = "a < b & \"c\"";
    const std::string svg = to_svg(timeline);
    CHECK(xml_fault(svg) == "");
    CHECK(contains(svg, "a &lt; b &amp; \"c\": bubble 12.5 % (idle time / ideal time)"));
    for (const char* words : {"stage 0<", "stage 3<", "F: forward", "B: input gradients",
                              "W: weight gradients", "idle", "prefers-color-scheme: dark", ">7<"}) {
        INFO(words);
        CHECK(contains(svg, words));
    }
    CHECK_FALSE(contains(svg, "BW: backward"));
    CHECK_FALSE(contains(svg, "messages"));
    CHECK_FALSE(contains(svg, "omitted"));
}

TEST_CASE("a long picture leaves its middle out and says so", "[schedule]") {
    const PipelineShape shape = {ScheduleKind::one_f_one_b, 8, 1, 512};
    PipelineCosts costs = unit_costs(shape);
    for (ChunkCost& cost : costs.chunks) {
        cost = {0.001, 0.001, 0.001};
    }
    costs.message = 0.0001;
    const std::string svg = to_svg(simulate(make_pipeline(shape), costs));
    CHECK(xml_fault(svg) == "");
    CHECK(svg.size() < 1 << 20);
    CHECK(contains(svg, " s omitted"));
    CHECK(contains(svg, ">0<"));
    CHECK(contains(svg, ">511<"));
    CHECK_FALSE(contains(svg, ">256<"));
    CHECK(contains(svg, "messages"));
}

TEST_CASE("operations are drawn with the time in which a stage waits for them", "[schedule]") {
    Timeline timeline = unit_timeline({ScheduleKind::one_f_one_b, 2, 1, 2});
    const double end = span_of(timeline).end;
    // The first has ended when it is requested; the second reaches beyond the span.
    timeline.operations = {{1, "dp all_gather", -1, 0, 0}, {1, "dp reduce_scatter", 2, 3, end + 4}};
    const std::string svg = to_svg(timeline);
    CHECK(xml_fault(svg) == "");
    CHECK(contains(svg, "operations in flight"));
    CHECK(contains(svg, "waiting"));
    CHECK(contains(svg, text("bubble ", fixed(100 * bubble(timeline), 1))));

    const Json trace = parse_json(to_trace_json(timeline), "timeline.json");
    std::map<std::int64_t, std::string> threads;
    std::vector<std::string> bars;
    for (const Json& event : trace["traceEvents"]) {
        if (event["name"] == "thread_name") threads[event["tid"]] = event["args"]["name"];
        if (event["ph"] != "X" || event["cat"] == "F" || event["cat"] == "BW") continue;
        bars.push_back(text(threads[event["tid"]], ": ", event["name"].get<std::string>(), " ",
                            event["ts"].get<double>() * 1e-6, " ",
                            event["dur"].get<double>() * 1e-6));
    }
    CHECK(bars == std::vector<std::string>{
                      "stage 1 operations: dp all_gather -1 1", "stage 1 operations: wait 0 0",
                      "stage 1 operations: dp reduce_scatter 2 " + text(end + 2),
                      "stage 1 operations: wait 3 " + text(end + 1)});
}

TEST_CASE("a trace holds every event in microseconds, on threads without overlap", "[schedule]") {
    const PipelineShape shape = {ScheduleKind::zero_bubble, 2, 2, 3};
    PipelineCosts costs = unit_costs(shape);
    costs.message = 0.5;
    Timeline timeline = simulate(make_pipeline(shape), costs);
    timeline.title = "a \"title\"";
    for (TimelineEvent& event : timeline.events) {
        event.begin += 100;
        event.end += 100;
    }
    // A measured receive lasts from when it is posted, in parallel with others.
    timeline.events.push_back({0, ActionKind::receive_gradients, 0, 0, 100.25, 130});
    const Json trace = parse_json(to_trace_json(timeline), "timeline.json");

    std::map<std::int64_t, std::string> threads;
    std::map<std::string, std::pair<double, double>> first_stage;
    std::map<std::int64_t, double> ends;
    std::size_t events = 0;
    std::vector<Json> sorted(trace["traceEvents"].begin(), trace["traceEvents"].end());
    std::stable_sort(sorted.begin(), sorted.end(), [](const Json& a, const Json& b) {
        return a.value("ts", -1.0) < b.value("ts", -1.0);
    });
    for (const Json& event : sorted) {
        if (event["name"] == "thread_name") threads[event["tid"]] = event["args"]["name"];
        if (event["name"] == "process_name") CHECK(event["args"]["name"] == "a \"title\"");
        if (event["ph"] != "X") continue;
        ++events;
        const double begin = event["ts"];
        double& end = ends[event["tid"]];
        CHECK(end <= begin);
        end = begin + event["dur"].get<double>();
        if (event["tid"] == 0) first_stage[event["name"]] = {event["ts"], event["dur"]};
    }
    CHECK(events == timeline.events.size());
    CHECK(threads[0] == "stage 0");
    CHECK(threads[1] == "stage 0 messages");
    CHECK(threads[2] == "stage 0 messages");
    CHECK(threads[3] == "stage 1");
    CHECK(threads.size() == 2 * 3);
    CHECK(first_stage.size() == 2 * 3 * 3);
    CHECK(first_stage["F0.0"] == std::pair(0.0, 1e6));
    CHECK(first_stage["F1.0"] == std::pair(1e6, 1e6));
    CHECK(trace["otherData"]["bubble"].get<double>() == Approx(bubble(timeline)));
}
