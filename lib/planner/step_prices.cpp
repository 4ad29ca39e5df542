#include "planner/step_prices.h"

#include <algorithm>

#include "comm/message_blocks.h"
#include "comm/peer_limits.h"
#include "hardware/message_time.h"
#include "metrics/comm_metrics.h"

namespace gptrain {
namespace {

Spent spent_on(OpWork::Kind kind) {
    switch (kind) {
        case OpWork::Kind::gemm: return Spent::gemms;
        case OpWork::Kind::attention_forward:
        case OpWork::Kind::attention_backward: return Spent::attention;
        case OpWork::Kind::optimizer: return Spent::optimizer;
        case OpWork::Kind::other: return Spent::other;
    }
    return Spent::other;
}

Spent spent_on(Axis reported) {
    switch (reported) {
        case Axis::tp: return Spent::tp;
        case Axis::cp: return Spent::cp;
        case Axis::dp: return Spent::dp;
        case Axis::experts: return Spent::experts;
        default: return Spent::pp;
    }
}

/// The calls of cuda/peer for an operation in which a rank of a group sends `sent` bytes: for each
/// piece a copy to and from each other rank, and a wait and flags for all of them at both ends;
/// events before and after the operation.
std::int64_t copy_calls(std::string_view operation, std::int64_t sent, std::int64_t ranks) {
    constexpr std::int64_t of_events = 6;
    const std::int64_t halves = operation == "all_reduce" ? 2 : 1;
    const std::int64_t others = is_between_two(operation) ? 1 : ranks - 1;
    const std::int64_t pieces =
        std::max<std::int64_t>(1, div_ceil(sent, halves * others * piece_bytes));
    return of_events + halves * pieces * 2 * (others + 2);
}

/// Copies between the device and host memory. A CPU copies within its memory, which it reads and
/// writes.
PricedMessage price_copies(const TraceMessage& message, const HardwareProfile& hardware) {
    const DeviceProfile& device = hardware.device;
    const auto bytes = static_cast<double>(message.bytes);
    const double memory = device.memory_bandwidth * device.memory_efficiency;
    return {
        .seconds = device.copy_bandwidth > 0 ? bytes / device.copy_bandwidth : 2 * bytes / memory,
        .spent = Spent::offload,
        .copy_calls = 1,
        .host_link = true};
}

PricedMessage price(const TraceMessage& message, std::int64_t stage, const PipelineTraces& pipeline,
                    const HardwareProfile& hardware) {
    if (is_host_link(message.communicator)) return price_copies(message, hardware);
    const MeshShape& mesh = pipeline.mesh;
    const NodeProfile& node = hardware.node;
    PricedMessage priced = {.spent = spent_on(reported_axis(message.axis, mesh)),
                            .between_stages = message.peer != Action::none,
                            .sends = message.operation == "send"};
    const std::int64_t per_node = ranks_per_node(hardware, mesh.size());
    GroupLayout layout;
    auto bytes = static_cast<double>(message.bytes);
    if (priced.between_stages) {
        priced.stages = 2;
        if (pipeline.free_boundary) return priced;
        const bool near = stages_share_node(stage, message.peer, mesh, per_node);
        layout = {.size = 2, .per_node = near ? 2 : 1, .blocks = most_message_blocks(Axis::pp)};
        if (!hardware.software.scatter_boundary) bytes *= static_cast<double>(mesh.tensor);
    } else {
        layout = group_layout(message.axis, mesh, per_node);
        if (message.axis == Axis::model) priced.stages = mesh.pipeline;
        if (message.axis == Axis::embedding_ends) priced.stages = 2;
        if (layout.size == 1) return priced;
    }
    // Copy engines move the data: no thread block bounds them or holds a multiprocessor.
    if (pipeline.peer_messages && can_be_peers(message.axis, mesh, per_node)) {
        layout.blocks = 0;
        priced.copy_calls = copy_calls(message.operation, message.bytes, layout.size);
    }
    const bool only_rings = pipeline.only_rings && hardware.kind == DeviceChoice::cuda;
    priced.seconds = message_seconds(node, layout, message.operation, bytes, only_rings);
    if (hardware.software.slowdown > 0) {
        const double share = bandwidth_of(node, layout, message.operation) / node.link.bandwidth;
        priced.slowdown = hardware.software.slowdown * std::min(1.0, share);
    } else if (hardware.kind == DeviceChoice::cuda) {
        priced.blocks = layout.blocks;
    }
    return priced;
}

}  // namespace

std::int64_t ranks_per_node(const HardwareProfile& hardware, std::int64_t ranks) {
    const NodeProfile& node = hardware.node;
    const bool any = hardware.kind == DeviceChoice::cpu && !node.network;
    return any ? ranks : std::min(ranks, node.devices);
}

double share_of_node(const HardwareProfile& hardware, std::int64_t ranks) {
    if (hardware.kind != DeviceChoice::cpu) return 1;
    return static_cast<double>(hardware.node.devices) /
           static_cast<double>(ranks_per_node(hardware, ranks));
}

double devices_per_rank(const HardwareProfile& hardware, std::int64_t ranks) {
    const double share = share_of_node(hardware, ranks);
    return hardware.threads == 0 ? share : std::min(share, static_cast<double>(hardware.threads));
}

double least_crowding(const HardwareProfile& hardware, const MeshShape& mesh) {
    const double of_a_stage = 1 / static_cast<double>(mesh.pipeline);
    return std::max(1.0, of_a_stage / devices_per_rank(hardware, mesh.size()));
}

StepPrices price_stage(const PipelineTraces& pipeline, std::int64_t stage,
                       const HardwareProfile& hardware) {
    const StepTrace& trace = pipeline.stages[static_cast<std::size_t>(stage)];
    const MeshShape& mesh = pipeline.mesh;
    const double devices = std::max(1.0, devices_per_rank(hardware, mesh.size()));
    const double arithmetic = slowest(hardware.device.spread, mesh.size()) *
                              slowest(hardware.device.op_spread, mesh.tensor * mesh.context) /
                              hardware.software.speed;
    StepPrices prices;
    for (const OpWork& op : trace.ops) {
        const Spent spent = spent_on(op.kind);
        const bool is_arithmetic = spent == Spent::gemms || spent == Spent::attention;
        const double seconds = op_seconds(hardware.device, op, devices);
        prices.ops.push_back({seconds * (is_arithmetic ? arithmetic : 1), spent});
    }
    for (const TraceMessage& message : trace.messages)
        prices.messages.push_back(price(message, stage, pipeline, hardware));
    return prices;
}

}  // namespace gptrain
