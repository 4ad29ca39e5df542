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
    for (const auto& [key, rate] : {std::pair("fp32", rates.fp32), std::pair("bf16", rates.bf16)})
        if (rate > 0) list += text(list.empty() ? "" : ", ", key, ": ", digits(rate));
    return text("{", list, "}");
}

}  // namespace

std::string profile_text(const HardwareProfile& profile, const std::string& origin) {
    const DeviceProfile& device = profile.device;
    std::string out = text(
        "# ", origin, "\n",
        "# One device is one core. device.spread: between ranks that compute at the same "
        "time; op_spread: what\n# comes on top from op to op. seconds: lower quartile of the "
        "repeats; spread: between their quartiles,\n# relative to it. SI units.\n",
        "name: ", profile.name, "\nkind: cpu\ndevice:\n", "  memory: ", digits(device.memory), "\n",
        "  memory_bandwidth: ", digits(device.memory_bandwidth), "\n",
        "  peak_flops: ", rates(device.peak_flops), "\n", "  spread: ", fixed(device.spread, 3),
        "\n", "  op_spread: ", fixed(device.op_spread, 3), "\n", "  attention:\n");
    for (const AttentionRate& rate : device.attention) {
        out += text("    - {head_dim: ", rate.head_dim, ", forward: ", digits(rate.forward),
                    ", backward: ", digits(rate.backward), "}\n");
    }
    out += "  measured:\n";
    for (const MeasuredOp& op : device.measured)
        out += line(op);
    const NodeProfile& node = profile.node;
    out += text("node:\n  devices: ", node.devices,
                "\n  link:\n    bandwidth: ", digits(node.link.bandwidth),
                "\n    latency: ", digits(node.link.latency), "\n");
    if (!node.link.measured.empty()) out += "    measured:\n";
    for (const MeasuredMessage& message : node.link.measured)
        out += line(message);
    return out + text("  host_memory: ", digits(node.host_memory),
                      "\n  disk_bandwidth: ", digits(node.disk_bandwidth), "\n");
}

}  // namespace gptrain
