#include "engine/step_trace.h"

#include <algorithm>
#include <utility>

#include "base/checked.h"

namespace gptrain {
namespace {

/// The index of the message in a list of distinct ones, to which it is added if it is new.
std::size_t intern(std::vector<TraceMessage>& known, const TraceMessage& message) {
    const auto found = std::find(known.begin(), known.end(), message);
    const auto index = static_cast<std::size_t>(found - known.begin());
    if (found == known.end()) known.push_back(message);
    return index;
}

int host_link(HostCopies::Direction direction) {
    return first_host_link + static_cast<int>(direction);
}

}  // namespace

void TraceRecorder::begin() {
    trace_ = {};
    body_.clear();
    known_ops_.clear();
    known_bodies_.clear();
    recording_ = true;
}

StepTrace TraceRecorder::take() {
    close_body({});
    recording_ = false;
    return std::exchange(trace_, {});
}

void TraceRecorder::add(TraceEvent::Kind kind, std::size_t index, std::int64_t distance) {
    body_.push_back({.kind = kind,
                     .index = narrow<std::int32_t>(index),
                     .distance = narrow<std::int32_t>(distance)});
}

void TraceRecorder::close_body(const std::optional<Action>& action) {
    if (!recording_ || (body_.empty() && !action)) return;
    const std::string bytes(reinterpret_cast<const char*>(body_.data()),
                            body_.size() * sizeof(TraceEvent));
    const auto [entry, is_new] =
        known_bodies_.try_emplace(bytes, narrow<std::int32_t>(trace_.bodies.size()));
    if (is_new) trace_.bodies.push_back(body_);
    trace_.parts.push_back({.body = entry->second, .action = action});
    body_.clear();
}

std::size_t TraceRecorder::OpHash::operator()(const OpWork& op) const {
    std::size_t hash = std::hash<std::string_view>{}(op.name);
    for (const std::int64_t size : {op.rows, op.cols, op.length})
        hash = hash * 31 + static_cast<std::size_t>(size);
    return hash * 31 + std::hash<double>{}(op.bytes);
}

void TraceRecorder::on_op(const OpWork& op) {
    if (!recording_) return;
    const auto [entry, is_new] = known_ops_.try_emplace(op, trace_.ops.size());
    if (is_new) trace_.ops.push_back(op);
    add(TraceEvent::Kind::op, entry->second);
}

void TraceRecorder::on_started(const HostCopies& copies) {
    const int link = host_link(copies.direction);
    issued_[link] = copies.number;
    if (!recording_) return;
    const bool fetches = copies.direction == HostCopies::Direction::fetch;
    add(TraceEvent::Kind::message,
        intern(trace_.messages, {.axis = Axis::tp,
                                 .communicator = link,
                                 .operation = fetches ? "fetch" : "store",
                                 .bytes = copies.bytes}));
}

void TraceRecorder::on_joined(HostCopies::Direction direction, std::int64_t number) {
    if (!recording_) return;
    const int link = host_link(direction);
    add(TraceEvent::Kind::wait, static_cast<std::size_t>(link), issued_[link] - number);
}

void TraceRecorder::on_started(const CommCall& call) {
    issued_[call.communicator] = call.number;
    const auto between_stages = std::exchange(message_, std::nullopt);
    if (!recording_) return;
    const TraceMessage message = {.axis = call.axis,
                                  .communicator = call.communicator,
                                  .operation = call.operation,
                                  .bytes = call.most_bytes,
                                  .peer = between_stages ? between_stages->peer : Action::none};
    add(TraceEvent::Kind::message, intern(trace_.messages, message));
}

void TraceRecorder::on_waiting(const CommCall& call) {
    if (!recording_) return;
    add(TraceEvent::Kind::wait, static_cast<std::size_t>(call.communicator),
        issued_[call.communicator] - call.number);
}

void TraceRecorder::on_begin(const Action& action) {
    if (computes(action.kind)) {
        close_body({});
    } else {
        message_ = action;
    }
}

void TraceRecorder::on_end(const Action& action) {
    if (computes(action.kind)) close_body(action);
}

}  // namespace gptrain
