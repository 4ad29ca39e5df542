#include "planner/step_recorder.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <utility>

#include "base/json.h"
#include "base/log.h"
#include "base/process.h"

namespace gptrain {
namespace {

double now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

bool same_work(const Action& a, const Action& b) {
    return a.kind == b.kind && a.microbatch == b.microbatch && a.chunk == b.chunk;
}

}  // namespace

void StepRecorder::on_step_begin() {
    recording_ = ++steps_ == wanted_;
    step_begin_ = now();
}

void StepRecorder::on_begin(const Action& action) {
    if (recording_) record_.actions.push_back({action, now(), 0});
}

void StepRecorder::on_end(const Action& action) {
    if (!recording_) return;
    const auto found =
        std::find_if(record_.actions.rbegin(), record_.actions.rend(),
                     [&](const auto& times) { return same_work(times.action, action); });
    GPTRAIN_CHECK(found != record_.actions.rend(), "an action ends that never began");
    found->end = now();
}

void StepRecorder::on_step_end() {
    if (!std::exchange(recording_, false)) return;
    done_(record_);
}

void StepRecorder::on_started(const CommCall& call) {
    in_flight_[{call.communicator, call.number}] = {now(), 0};
}

void StepRecorder::on_waiting(const CommCall& call) {
    in_flight_[{call.communicator, call.number}].second = now();
}

void StepRecorder::on_finished(const CommCall& call) {
    const auto times = in_flight_.extract({call.communicator, call.number}).mapped();
    const bool of_action = call.operation == "send" || call.operation == "recv";
    if (!recording_ || of_action) return;
    const std::string name = text(name_of(call.axis), " ", call.operation);
    record_.operations.push_back({name, std::max(times.first, step_begin_), times.second, now()});
}

namespace {

constexpr int barriers = 9;

std::vector<double> times_after_barriers(const MpiSession& ranks) {
    std::vector<double> times;
    for (int i = 0; i < barriers; ++i) {
        ranks.max(0);
        times.push_back(now());
    }
    return times;
}

std::string to_text(const StepRecord& record, const std::vector<double>& clock) {
    Json actions = Json::array();
    for (const auto& [action, begin, end] : record.actions) {
        actions.push_back({static_cast<int>(action.kind), action.microbatch, action.chunk,
                           action.peer, begin, end});
    }
    Json operations = Json::array();
    for (const auto& [name, begin, wait, end] : record.operations)
        operations.push_back({name, begin, wait, end});
    return to_line({{"host", host_name()},
                    {"clock", clock},
                    {"actions", std::move(actions)},
                    {"operations", std::move(operations)}});
}

/// Seconds to add to times of `other` to convert them to `first`'s clock.
double clock_offset(const Json& first, const Json& other) {
    if (first["host"] == other["host"]) return 0;
    std::vector<double> offsets;
    for (std::size_t i = 0; i < barriers; ++i)
        offsets.push_back(first["clock"][i].get<double>() - other["clock"][i].get<double>());
    std::sort(offsets.begin(), offsets.end());
    return offsets[barriers / 2];
}

StepRecord to_record(const Json& json, double offset) {
    StepRecord record;
    for (const Json& times : json["actions"]) {
        const Action action = {.kind = static_cast<ActionKind>(times[0].get<int>()),
                               .microbatch = times[1],
                               .chunk = times[2],
                               .peer = times[3]};
        record.actions.push_back(
            {action, times[4].get<double>() + offset, times[5].get<double>() + offset});
    }
    for (const Json& times : json["operations"]) {
        record.operations.push_back({times[0], times[1].get<double>() + offset,
                                     times[2].get<double>() + offset,
                                     times[3].get<double>() + offset});
    }
    return record;
}

/// Ends every send with its receive. Between two stages they have the same order.
void join_messages(std::vector<StepRecord>& stages) {
    std::map<std::pair<std::int64_t, std::int64_t>, std::deque<double>> arrivals;
    for (std::size_t stage = 0; stage < stages.size(); ++stage) {
        for (const auto& [action, begin, end] : stages[stage].actions) {
            if (computes(action.kind) || sends(action.kind)) continue;
            arrivals[{action.peer, static_cast<std::int64_t>(stage)}].push_back(end);
        }
    }
    for (std::size_t stage = 0; stage < stages.size(); ++stage) {
        for (auto& [action, begin, end] : stages[stage].actions) {
            if (!sends(action.kind)) continue;
            std::deque<double>& ends = arrivals[{static_cast<std::int64_t>(stage), action.peer}];
            GPTRAIN_CHECK(!ends.empty(), "a send of stage ", stage, " without a receive");
            end = ends.front();
            ends.pop_front();
        }
    }
}

}  // namespace

Timeline gather_timeline(const StepRecord& own, const MeshShape& mesh, const MpiSession& ranks) {
    const MeshPlace place = place_of(ranks.rank(), mesh);
    const bool drawn = place.dp == 0 && place.cp == 0 && place.tp == 0;
    const std::vector<double> clock = times_after_barriers(ranks);
    const std::vector<std::string> texts = ranks.exchange(drawn ? to_text(own, clock) : "");
    std::vector<StepRecord> stages;
    const Json first = parse_json(texts.front(), "the record of rank 0");
    for (int stage = 0; stage < mesh.pipeline; ++stage) {
        const auto rank = static_cast<std::size_t>(rank_of({.pp = stage}, mesh));
        const Json json = parse_json(texts[rank], text("the record of rank ", rank));
        stages.push_back(to_record(json, clock_offset(first, json)));
    }
    join_messages(stages);
    Timeline timeline;
    timeline.stages = mesh.pipeline;
    for (std::int64_t stage = 0; stage < timeline.stages; ++stage) {
        const StepRecord& record = stages[static_cast<std::size_t>(stage)];
        for (const auto& [action, begin, end] : record.actions) {
            timeline.events.push_back(
                {stage, action.kind, action.chunk, action.microbatch, begin, end});
            timeline.chunks = std::max(timeline.chunks, action.chunk + 1);
        }
        for (const auto& [name, begin, wait, end] : record.operations)
            timeline.operations.push_back({stage, name, begin, wait, end});
    }
    return timeline;
}

}  // namespace gptrain
