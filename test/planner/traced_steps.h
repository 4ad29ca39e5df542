// Traces and profiles so small that every second can be counted by hand.
#pragma once

#include "catch.h"
#include "planner/step_time.h"

namespace gptrain::test {

/// One FLOP and one byte a second, no latency: times are sizes.
inline HardwareProfile unit_hardware() {
    HardwareProfile hardware;
    hardware.device.memory_bandwidth = 1;
    hardware.device.peak_flops = {1, 1, 1, 1};
    hardware.device.attention = {{64, 1, 1}};
    hardware.node.devices = 1;
    hardware.node.link = {.bandwidth = 1, .latency = 0};
    hardware.node.network = LinkProfile{.bandwidth = 1, .latency = 0};
    return hardware;
}

inline OpWork gemm(double flops) {
    return {.kind = OpWork::Kind::gemm, .name = "linear_forward", .flops = flops};
}

inline OpWork traffic(double bytes) {
    return {.name = "rope", .bytes = bytes};
}

/// A trace that is written down event by event.
class Script {
public:
    Script& op(const OpWork& op) {
        trace_.ops.push_back(op);
        return add(TraceEvent::Kind::op, std::ssize(trace_.ops) - 1);
    }
    /// A collective: one communicator for each axis.
    Script& message(Axis axis, std::int64_t bytes, std::string_view operation = "reduce_scatter") {
        trace_.messages.push_back({.axis = axis,
                                   .communicator = static_cast<int>(axis),
                                   .operation = operation,
                                   .bytes = bytes});
        return add(TraceEvent::Kind::message, std::ssize(trace_.messages) - 1);
    }
    Script& between(std::string_view operation, std::int64_t peer, std::int64_t bytes) {
        const int communicator = operation == "send" ? 100 : 101;
        trace_.messages.push_back({.axis = Axis::pp,
                                   .communicator = communicator,
                                   .operation = operation,
                                   .bytes = bytes,
                                   .peer = peer});
        return add(TraceEvent::Kind::message, std::ssize(trace_.messages) - 1);
    }
    /// Copies on a link to the host: 0 fetches, 1 stores.
    Script& copies(int direction, std::int64_t bytes) {
        trace_.messages.push_back({.communicator = first_host_link + direction,
                                   .operation = direction == 0 ? "fetch" : "store",
                                   .bytes = bytes});
        return add(TraceEvent::Kind::message, std::ssize(trace_.messages) - 1);
    }
    Script& wait(int communicator, std::int64_t distance = 0) {
        return add(TraceEvent::Kind::wait, communicator, distance);
    }
    Script& wait(Axis axis, std::int64_t distance = 0) {
        return wait(static_cast<int>(axis), distance);
    }
    /// Ends an action, F of a microbatch.
    Script& action(std::int64_t microbatch = 0) {
        return close(Action{ActionKind::forward, microbatch});
    }
    StepTrace trace() {
        close({});
        return trace_;
    }

private:
    Script& add(TraceEvent::Kind kind, std::int64_t index, std::int64_t distance = 0) {
        body_.push_back(
            {kind, static_cast<std::int32_t>(index), static_cast<std::int32_t>(distance)});
        return *this;
    }
    Script& close(const std::optional<Action>& action) {
        trace_.parts.push_back({static_cast<std::int32_t>(trace_.bodies.size()), action});
        trace_.bodies.push_back(std::move(body_));
        body_.clear();
        return *this;
    }

    StepTrace trace_;
    std::vector<TraceEvent> body_;
};

inline StepTime time_of(const std::vector<StepTrace>& stages, const MeshShape& mesh,
                        const HardwareProfile& hardware = unit_hardware()) {
    PipelineTraces pipeline;
    pipeline.mesh = mesh;
    pipeline.stages = stages;
    const StepTime time = time_step(pipeline, hardware);
    double sum = 0;
    for (const double seconds : time.spent)
        sum += seconds;
    CHECK(sum == Approx(time.seconds));
    return time;
}

inline StepTime time_of(const StepTrace& stage, const MeshShape& mesh = {},
                        const HardwareProfile& hardware = unit_hardware()) {
    return time_of(std::vector{stage}, mesh, hardware);
}

inline const MeshShape data_and_tensor = {.data = 2, .tensor = 2};

}  // namespace gptrain::test
