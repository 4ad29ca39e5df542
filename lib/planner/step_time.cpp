#include "planner/step_time.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "base/at.h"
#include "base/error.h"
#include "planner/step_clock.h"

namespace gptrain {
namespace {

std::size_t last_action(const StepTrace& trace) {
    std::size_t part = trace.parts.size();
    while (part > 0 && !trace.parts[part - 1].action)
        --part;
    return part == 0 ? trace.parts.size() : part - 1;
}

bool in_action(const StageClock& stage) {
    return stage.trace->parts[stage.part].action.has_value();
}

class StepSimulation {
public:
    StepSimulation(const PipelineTraces& pipeline, const HardwareProfile& hardware, Tracks* tracks)
        : pipeline_(pipeline),
          hardware_(hardware),
          tracks_(tracks),
          host_moves_(hardware.kind == DeviceChoice::cpu),
          cores_(devices_per_rank(hardware, pipeline.mesh.size())),
          simulated_(simulated_steps + (shares_cores() ? 1 : 0)) {
        for (std::int64_t stage = 0; stage < std::ssize(pipeline.stages); ++stage) {
            stages_.emplace_back();
            stages_.back().trace = &at(pipeline.stages, stage);
            stages_.back().prices = price_stage(pipeline, stage, hardware);
            stages_.back().last_action = last_action(at(pipeline.stages, stage));
            ready_.push_back(stage);
        }
    }

    StepTime run();

private:
    /// Handles a stage's events until one has to wait for another stage.
    void advance(std::int64_t index);
    /// False if the event has to wait for another stage.
    bool handle(std::int64_t index, const TraceEvent& event);
    void compute(StageClock& stage, std::int64_t index);
    /// More ranks than cores: a stage that waits leaves its cores to the others.
    bool shares_cores() const { return cores_ < 1; }
    /// How many times as long work takes that starts at `now`, since the cores are shared.
    double crowding(const StageClock& stage, double now) const;
    /// The stage has nothing to do from now on.
    static void rest(StageClock& stage) {
        stage.idle_from = stage.device;
        stage.idle_until = std::numeric_limits<double>::infinity();
    }
    /// True if another stage, which shares its cores or sends to it, has to be simulated first.
    bool is_ahead(const StageClock& stage) const;
    std::int64_t next_ready();
    /// From `begin` on, a message that the stage may wait for moves data.
    void make_ready(std::int64_t index, double begin);
    bool issue(std::int64_t index, const TraceMessage& what, const PricedMessage& price);
    bool wait(std::int64_t index, const TraceEvent& event);
    /// Adds a collective operation of dp or pp to the timeline; tp and cp have too many.
    void draw(std::int64_t index, const IssuedMessage& message);
    /// True for a message that the software does not overlap: what follows waits for it. A sender
    /// waits for the time that its data take.
    bool computing_waits(const StageClock& stage, const PricedMessage& price) const;
    /// True for a reduction of gradients that waits for the step's last action.
    bool postpones(const StageClock& stage, const PricedMessage& price) const;
    void meet(std::int64_t index, const TraceMessage& what, IssuedMessage& message);
    void move_data(StageClock& stage, IssuedMessage& message, double begin, double seconds) const;
    void move_by_host(StageClock& stage, IssuedMessage& message) const;
    void end_part(std::int64_t index);
    /// Adds to a track, if tracks are wanted.
    void record(const StageClock& stage, TrackKey::Clock clock, std::int64_t index,
                double time) const {
        if (tracks_ == nullptr || stage.step != simulated_steps - 1) return;
        (*tracks_)[{clock, &stage - stages_.data(), stage.last_kind, index}].push_back(time);
    }
    /// Moves the device's clock.
    void spend(StageClock& stage, Spent what, double seconds) const {
        stage.device += seconds;
        if (stage.step == simulated_steps - 1) at(stage.spent, what) += seconds;
    }
    [[noreturn]] void fail_waiting() const;

    const PipelineTraces& pipeline_;
    const HardwareProfile& hardware_;
    Tracks* tracks_;           ///< null: not wanted
    bool host_moves_ = false;  ///< data, while it waits (MPI)
    double cores_ = 1;         ///< of each rank
    int simulated_;            ///< steps; stages that share cores compute after the one that counts
    std::vector<StageClock> stages_;
    std::deque<std::int64_t> ready_;
    std::map<std::tuple<Axis, std::int64_t, std::int64_t>, MeetingPoint> meetings_;
    Timeline timeline_;
};

// ---- events -------------------------------------------------------------------------------------

void StepSimulation::compute(StageClock& stage, std::int64_t index) {
    const PricedOp& op = at(stage.prices.ops, index);
    stage.host += hardware_.device.issue_seconds;
    if (stage.host > stage.device) spend(stage, Spent::host, stage.host - stage.device);
    const double seconds = op.seconds * crowding(stage, stage.device);
    spend(stage, op.spent, seconds + delay_by_messages(stage, hardware_.device, index, seconds));
}

double StepSimulation::crowding(const StageClock& stage, double now) const {
    if (!shares_cores()) return 1;
    std::int64_t busy = 0;
    for (const StageClock& each : stages_) {
        const bool is_idle = each.idle_from <= now && now < each.idle_until;
        busy += &each == &stage || !is_idle;
    }
    const double share = static_cast<double>(busy) / static_cast<double>(pipeline_.mesh.pipeline);
    return std::max(1.0, share / cores_);
}

bool StepSimulation::is_ahead(const StageClock& stage) const {
    const auto waits = [](const Transfer& transfer) { return std::isinf(transfer.end); };
    if (!shares_cores() && std::ranges::none_of(stage.transfers, waits)) return false;
    return std::any_of(ready_.begin(), ready_.end(), [&](std::int64_t other) {
        return at(stages_, other).device < stage.device;
    });
}

std::int64_t StepSimulation::next_ready() {
    const auto earlier = [&](std::int64_t a, std::int64_t b) {
        return at(stages_, a).device < at(stages_, b).device;
    };
    const auto next = std::min_element(ready_.begin(), ready_.end(), earlier);
    const std::int64_t stage = *next;
    ready_.erase(next);
    return stage;
}

void StepSimulation::make_ready(std::int64_t index, double begin) {
    StageClock& stage = at(stages_, index);
    if (std::exchange(stage.ready, true)) return;
    stage.idle_until = begin;
    ready_.push_back(index);
}

void StepSimulation::move_data(StageClock& stage, IssuedMessage& message, double begin,
                               double seconds) const {
    message.begin = begin;
    message.end = begin + seconds;
    message.met = true;
    record(stage, TrackKey::Clock::message, message.communicator, message.end);
    takes_speed(stage, message);
}

bool StepSimulation::issue(std::int64_t index, const TraceMessage& what,
                           const PricedMessage& price) {
    StageClock& stage = at(stages_, index);
    MessageQueue& queue = stage.queues[what.communicator];
    if (!queue.messages.empty()) {
        if (!queue.messages.back().met) return false;
        queue.last_end = queue.messages.back().end;
    }
    const DeviceProfile& device = hardware_.device;
    if (price.copy_calls > 0) {
        stage.host += static_cast<double>(price.copy_calls) * device.issue_seconds;
    } else {
        stage.host +=
            device.message_issue_seconds > 0 ? device.message_issue_seconds : device.issue_seconds;
    }
    IssuedMessage message;
    message.number = stage.messages++;
    message.price = price;
    message.operation = what.operation;
    message.communicator = what.communicator;
    const double alone =
        host_moves_ ? stage.device : std::max({stage.host, stage.device, queue.last_end});
    const bool in_order = hardware_.software.in_order && !host_moves_ && !price.host_link;
    message.start = in_order ? std::max(alone, stage.last_start) : alone;
    message.delay = message.start - alone;
    message.held_by = stage.last_spent;
    if (!price.host_link) {
        stage.last_start = message.start;
        stage.last_spent = price.spent;
    }
    queue.messages.push_back(message);
    IssuedMessage& issued = queue.messages.back();
    if (postpones(stage, price)) {
        stage.postponed += price.seconds;
        issued.begin = issued.end = stage.device;
        issued.met = true;
    } else if (price.stages == 1) {
        move_data(stage, issued, message.start, price.seconds);
    } else {
        takes_speed(stage, issued);
        meet(index, what, issued);
    }
    if (computing_waits(stage, price)) {
        const double end = price.sends ? stage.device + price.seconds : issued.end;
        if (end > stage.device) spend(stage, price.spent, end - stage.device);
    }
    return true;
}

bool StepSimulation::computing_waits(const StageClock& stage, const PricedMessage& price) const {
    const SoftwareProfile& software = hardware_.software;
    if (price.between_stages) return price.sends && !software.overlap_boundary;
    if (price.spent == Spent::tp) return !software.overlap_tensor;
    return price.spent == Spent::dp && !in_action(stage) && !software.overlap_params;
}

bool StepSimulation::postpones(const StageClock& stage, const PricedMessage& price) const {
    return price.spent == Spent::dp && in_action(stage) && !hardware_.software.overlap_grads;
}

void StepSimulation::meet(std::int64_t index, const TraceMessage& what, IssuedMessage& message) {
    const bool sends = what.operation == "send";
    const bool pairwise = what.peer != Action::none;
    const std::int64_t from = !pairwise ? -1 : sends ? index : what.peer;
    const std::int64_t to = !pairwise ? -1 : sends ? what.peer : index;
    MeetingPoint& point = meetings_[{what.axis, from, to}];
    const std::int64_t number = point.issued[index]++ - point.closed;
    if (std::cmp_less_equal(point.open.size(), number))
        point.open.resize(static_cast<std::size_t>(number + 1));
    MessageMeeting& meeting = at(point.open, number);
    meeting.arrived.emplace_back(index, &message);
    if (std::cmp_less(meeting.arrived.size(), message.price.stages)) return;
    double begin = 0;
    double seconds = 0;
    for (const auto& [stage, arrived] : meeting.arrived) {
        begin = std::max(begin, arrived->start);
        seconds = std::max(seconds, arrived->price.seconds);
    }
    for (const auto& [stage, arrived] : meeting.arrived) {
        move_data(at(stages_, stage), *arrived, begin, seconds);
        make_ready(stage, begin);
    }
    meeting.over = true;
    while (!point.open.empty() && point.open.front().over) {
        point.open.pop_front();
        ++point.closed;
    }
}

/// From now on the receiver moves data.
void StepSimulation::move_by_host(StageClock& stage, IssuedMessage& message) const {
    const double all_here = message.begin;
    const double seconds = message.price.sends ? 0 : message.end - message.begin;
    message.begin = std::max(stage.device, all_here);
    message.end = message.begin + seconds * crowding(stage, message.begin);
    stage.idle_from = stage.device;
    stage.idle_until = message.begin;
}

void StepSimulation::draw(std::int64_t index, const IssuedMessage& message) {
    const StageClock& stage = at(stages_, index);
    const Spent axis = message.price.spent;
    const bool drawn = axis == Spent::dp || (axis == Spent::pp && !message.price.between_stages);
    if (!drawn || stage.step < simulated_steps - 1) return;
    timeline_.operations.push_back({.stage = index,
                                    .name = text(name_of(axis), " ", message.operation),
                                    .begin = message.begin,
                                    .wait = std::min(stage.device, message.end),
                                    .end = message.end});
}

bool StepSimulation::wait(std::int64_t index, const TraceEvent& event) {
    StageClock& stage = at(stages_, index);
    MessageQueue& queue = stage.queues[event.index];
    // The first step has no messages of an earlier one.
    if (event.distance >= std::ssize(queue.messages)) return true;
    IssuedMessage& message = at(queue.messages, std::ssize(queue.messages) - 1 - event.distance);
    if (!message.met) return false;
    message.waited = true;
    const bool reduces = message.price.spent == Spent::dp && stage.part > stage.last_action;
    if (reduces) spend(stage, Spent::dp, std::exchange(stage.postponed, 0));
    if (host_moves_) move_by_host(stage, message);
    draw(index, message);
    if (const double gap = message.end - stage.device; gap > 0) {
        // The last part of the gap is the transfer; before it the start was delayed, and before
        // that other stages were late.
        const double moving = std::min(gap, message.end - message.begin);
        const double held = std::min(gap - moving, message.delay);
        spend(stage, Spent::bubble, gap - moving - held);
        spend(stage, message.held_by, held);
        spend(stage, message.price.spent, moving);
        stage.device = message.end;
    }
    while (!queue.messages.empty() && queue.messages.front().waited) {
        queue.last_end = queue.messages.front().end;
        queue.messages.pop_front();
    }
    return true;
}

bool StepSimulation::handle(std::int64_t index, const TraceEvent& event) {
    StageClock& stage = at(stages_, index);
    switch (event.kind) {
        case TraceEvent::Kind::op: compute(stage, event.index); return true;
        case TraceEvent::Kind::wait: return wait(index, event);
        case TraceEvent::Kind::message:
            return issue(index, at(stage.trace->messages, event.index),
                         at(stage.prices.messages, event.index));
    }
    return true;
}

void StepSimulation::end_part(std::int64_t index) {
    StageClock& stage = at(stages_, index);
    const StepTrace::Part& part = stage.trace->parts[stage.part];
    if (part.action && stage.step == simulated_steps - 1) {
        timeline_.events.push_back({index, part.action->kind, part.action->chunk,
                                    part.action->microbatch, stage.part_begin, stage.device});
    }
    if (part.action) {
        stage.last_kind = part.action->kind;
        record(stage, TrackKey::Clock::host, part.action->chunk, stage.host);
    }
    ++stage.part;
    stage.event = 0;
    stage.part_begin = stage.device;
    if (stage.part < stage.trace->parts.size()) return;
    stage.part = 0;
    if (stage.step < simulated_steps) at(stage.ends, stage.step) = stage.device;
    ++stage.step;
    if (pipeline_.host_reads) stage.host = std::max(stage.host, stage.device);
}

void StepSimulation::advance(std::int64_t index) {
    StageClock& stage = at(stages_, index);
    while (stage.step < simulated_) {
        const auto& events = at(stage.trace->bodies, stage.trace->parts[stage.part].body);
        for (; stage.event < events.size(); ++stage.event) {
            const TraceEvent& event = events[stage.event];
            const bool computes = event.kind == TraceEvent::Kind::op;
            if (computes && is_ahead(stage)) return ready_.push_back(index);
            if (!handle(index, event)) {
                stage.ready = false;
                rest(stage);
                return;
            }
        }
        end_part(index);
    }
    rest(stage);
}

void StepSimulation::fail_waiting() const {
    std::string waiting;
    for (const StageClock& stage : stages_) {
        if (stage.step == simulated_) continue;
        const StepTrace::Part& part = stage.trace->parts[stage.part];
        waiting += text(waiting.empty() ? "" : ", ", "stage ", &stage - stages_.data(),
                        part.action ? text(" in ", to_text(*part.action, pipeline_.chunks)) : "");
    }
    fail(ExitCode::bug, "messages deadlock in the order in which they are issued: ", waiting);
}

StepTime StepSimulation::run() {
    while (!ready_.empty())
        advance(next_ready());
    std::vector<StageTime> times;
    for (const StageClock& stage : stages_) {
        if (stage.step < simulated_) fail_waiting();
        times.push_back({.begin = stage.ends[simulated_steps - 2],
                         .end = stage.ends[simulated_steps - 1],
                         .spent = stage.spent});
    }
    StepTime step = step_of(std::move(times));
    timeline_.stages = std::ssize(stages_);
    timeline_.chunks = pipeline_.chunks;
    step.timeline = std::move(timeline_);
    return step;
}

}  // namespace

StepTime time_step(const PipelineTraces& pipeline, const HardwareProfile& hardware,
                   Tracks* tracks) {
    StepTime step = StepSimulation(pipeline, hardware, tracks).run();
    if (tracks != nullptr) tracks->merge(tracks_of(step.timeline));
    return step;
}

}  // namespace gptrain
