#include "calibrate/profile_text.h"

#include <charconv>
#include <utility>

#include "base/text.h"

namespace gptrain {
namespace {

/// Four digits: no measurement has more.
std::string digits(double value) {
    char out[32];
    const auto end =
        std::to_chars(out, out + sizeof out, value, std::chars_format::scientific, 3).ptr;
    return {out, end};
}

std::string line(const MeasuredOp& op) {
    std::string sizes;
    for (const auto& [key, value] :
         {std::pair("rows", op.rows), std::pair("cols", op.cols), std::pair("length", op.length),
          std::pair("head_dim", op.head_dim)})
        if (value > 0) sizes += text(", ", key, ": ", value);
    if (op.flops > 0) sizes += text(", flops: ", op.flops);
    return text("    - {op: ", op.op, ", precision: ", name_of(op.precision),
                ", threads: ", op.threads, sizes, ", bytes: ", op.bytes,
                ", seconds: ", digits(op.seconds), ", spread: ", fixed(op.spread, 2), "}\n");
}

std::string line(const MeasuredMessage& message) {
    return text("      - {operation: ", message.operation, ", bytes: ", message.bytes,
                ", seconds: ", digits(message.seconds), ", spread: ", fixed(message.spread, 2),
                "}\n");
}

std::string rates(const PrecisionRates& rates) {
    std::string list;
    for (const auto& [key, rate] : {std::pair("fp32", rates.fp32), std::pair("bf16", rates.bf16),
                                    std::pair("fp16", rates.fp16), std::pair("fp8", rates.fp8)})
        if (rate > 0) list += text(list.empty() ? "" : ", ", key, ": ", digits(rate));
    return text("{", list, "}");
}

std::string device_text(const DeviceProfile& device) {
    std::string out =
        text("device:\n  memory: ", digits(device.memory),
             "\n  memory_bandwidth: ", digits(device.memory_bandwidth),
             "\n  peak_flops: ", rates(device.peak_flops), "\n  spread: ", fixed(device.spread, 3),
             "\n  op_spread: ", fixed(device.op_spread, 3), "\n");
    for (const auto& [key, value] :
         {std::pair("op_seconds", device.op_seconds),
          std::pair("issue_seconds", device.issue_seconds),
          std::pair("message_issue_seconds", device.message_issue_seconds),
          std::pair("gemm_crowding", device.gemm_crowding),
          std::pair("copy_bandwidth", device.copy_bandwidth)})
        if (value > 0) out += text("  ", key, ": ", digits(value), "\n");
    out += "  attention:\n";
    for (const AttentionRate& rate : device.attention) {
        out += text("    - {head_dim: ", rate.head_dim, ", forward: ", digits(rate.forward),
                    ", backward: ", digits(rate.backward), "}\n");
    }
    out += "  measured:\n";
    for (const MeasuredOp& op : device.measured)
        out += line(op);
    return out;
}

std::string link_text(const LinkProfile& link) {
    std::string out = text("    bandwidth: ", digits(link.bandwidth),
                           "\n    latency: ", digits(link.latency), "\n");
    if (!link.measured.empty()) out += "    measured:\n";
    for (const MeasuredMessage& message : link.measured)
        out += line(message);
    return out;
}

std::string node_text(const NodeProfile& node) {
    std::string out = text("node:\n  devices: ", node.devices, "\n  link:\n", link_text(node.link));
    if (node.network)
        out += text("  network:\n", link_text(*node.network), "  cards: ", node.cards, "\n");
    return out + text("  host_memory: ", digits(node.host_memory),
                      "\n  disk_bandwidth: ", digits(node.disk_bandwidth), "\n");
}

}  // namespace

std::string profile_text(const HardwareProfile& profile, const std::string& origin) {
    const bool is_cpu = profile.kind == DeviceChoice::cpu;
    return text("# ", origin, "\n# ", is_cpu ? "One device is one core. " : "",
                "device.spread: between ranks that compute at the same time; op_spread: what\n"
                "# comes on top from op to op. seconds: lower quartile of the repeats; spread: "
                "between their quartiles,\n# relative to it. SI units.\nname: ",
                profile.name, "\nkind: ", name_of(profile.kind), "\n", device_text(profile.device),
                node_text(profile.node));
}

}  // namespace gptrain
