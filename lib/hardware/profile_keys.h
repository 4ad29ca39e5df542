// The keys of a hardware profile, spelled once, as spec_keys.h has those of a run spec.
#pragma once

#include "hardware/profile.h"
#include "spec/spec_keys.h"

namespace gptrain {

constexpr IntRange measured_size = {0, std::int64_t{1} << 40};
constexpr RealRange share_value = {.low = 0.0, .high = 1.0, .ends = RealRange::Ends::high_only};
/// Most ratios are near 1: this bound finds percentages.
constexpr RealRange ratio_value = {.low = 0.0, .high = 10.0, .ends = RealRange::Ends::high_only};

void visit_precisions(auto& keys, PrecisionRates& rates, const RealRange& range) {
    keys.value("fp32", rates.fp32, range);
    keys.value("bf16", rates.bf16, range);
    keys.value("fp16", rates.fp16, range);
    keys.value("fp8", rates.fp8, range);
}

void visit_keys(auto& keys, PrecisionRates& rates) {
    visit_precisions(keys, rates, not_negative);
}

void visit_keys(auto& keys, PrecisionShares& shares) {
    visit_precisions(keys, shares, zero_to_one);
}

void visit_keys(auto& keys, GemmTile& tile) {
    keys.required("rows", tile.rows, IntRange{1, 1 << 16});
    keys.required("cols", tile.cols, IntRange{1, 1 << 16});
    keys.value("speed", tile.speed, share_value);
}

void visit_keys(auto& keys, AttentionRate& rate) {
    keys.required("head_dim", rate.head_dim, IntRange{1, 256});
    keys.required("forward", rate.forward, positive);
    keys.required("backward", rate.backward, positive);
}

void visit_keys(auto& keys, OpBandwidth& op) {
    keys.required("op", op.op, Label{});
    keys.required("bandwidth", op.bandwidth, positive);
}

void visit_keys(auto& keys, MeasuredOp& op) {
    keys.required("op", op.op, Label{});
    keys.value("precision", op.precision);
    keys.value("threads", op.threads, IntRange{1, 1 << 16});
    keys.value("rows", op.rows, measured_size);
    keys.value("cols", op.cols, measured_size);
    keys.value("length", op.length, measured_size);
    keys.value("head_dim", op.head_dim, measured_size);
    keys.value("flops", op.flops, not_negative);
    keys.required("bytes", op.bytes, positive);
    keys.required("seconds", op.seconds, positive);
    keys.value("spread", op.spread, not_negative);
}

void visit_keys(auto& keys, MeasuredMessage& message) {
    keys.required("operation", message.operation, Label{});
    keys.required("bytes", message.bytes, positive);
    keys.required("seconds", message.seconds, positive);
    keys.value("spread", message.spread, not_negative);
}

void visit_keys(auto& keys, DeviceProfile& device) {
    keys.required("memory", device.memory, positive);
    keys.required("memory_bandwidth", device.memory_bandwidth, positive);
    keys.value("memory_efficiency", device.memory_efficiency, share_value);
    keys.required("peak_flops", device.peak_flops);
    keys.value("gemm_efficiency", device.gemm_efficiency);
    keys.value("multiprocessors", device.multiprocessors, IntRange{1, 1 << 16});
    keys.value("gemm_tiles", device.gemm_tiles, ListOf<>{0, 100});
    keys.value("gemm_fill", device.gemm_fill, not_negative);
    keys.value("fuses_gelu", device.fuses_gelu);
    keys.value("fuses_gelu_gradient", device.fuses_gelu_gradient);
    keys.required("attention", device.attention, ListOf<>{1, 100});
    keys.value("attention_half_length", device.attention_half_length, not_negative);
    keys.value("op_bandwidths", device.op_bandwidths, ListOf<>{0, 1000});
    keys.value("spread", device.spread, fraction);
    keys.value("op_spread", device.op_spread, fraction);
    keys.value("op_seconds", device.op_seconds, not_negative);
    keys.value("issue_seconds", device.issue_seconds, not_negative);
    keys.value("message_issue_seconds", device.message_issue_seconds, not_negative);
    keys.value("gemm_crowding", device.gemm_crowding, RealRange{.low = 1.0, .high = 10.0});
    keys.value("copy_bandwidth", device.copy_bandwidth, not_negative);
    keys.value("measured", device.measured, ListOf<>{0, 100'000});
}

void visit_keys(auto& keys, LinkProfile& link) {
    keys.required("bandwidth", link.bandwidth, not_negative);
    keys.required("latency", link.latency, not_negative);
    keys.value("reduction", link.reduction, share_value);
    keys.value("block_bandwidth", link.block_bandwidth, not_negative);
    keys.value("measured", link.measured, ListOf<>{0, 10'000});
}

void visit_keys(auto& keys, NodeProfile& node) {
    keys.required("devices", node.devices, IntRange{1, 1 << 16});
    keys.required("link", node.link);
    keys.open("network", node.network, "none");
    keys.value("cards", node.cards, IntRange{1, 1 << 16});
    keys.value("host_memory", node.host_memory, not_negative);
    keys.value("disk_bandwidth", node.disk_bandwidth, not_negative);
}

void visit_keys(auto& keys, SoftwareProfile& software) {
    keys.value("overlap_grads", software.overlap_grads);
    keys.value("overlap_params", software.overlap_params);
    keys.value("overlap_tensor", software.overlap_tensor);
    keys.value("overlap_boundary", software.overlap_boundary);
    keys.value("in_order", software.in_order);
    keys.value("scatter_boundary", software.scatter_boundary);
    keys.value("slowdown", software.slowdown, fraction);
    keys.value("speed", software.speed, ratio_value);
}

void visit_keys(auto& keys, HardwareProfile& profile) {
    keys.required("name", profile.name, Label{});
    keys.required("kind", profile.kind,
                  OneOf<DeviceChoice>{{DeviceChoice::cpu, DeviceChoice::cuda}});
    keys.required("device", profile.device);
    keys.required("node", profile.node);
    keys.value("software", profile.software);
    keys.value("correction", profile.correction, positive);
    keys.value("watts", profile.watts, not_negative);
    keys.value("price_per_hour", profile.price_per_hour, not_negative);
}

}  // namespace gptrain
