#include "calibrate/calibrate.h"

#include <algorithm>
#include <unistd.h>

#include "base/checked.h"
#include "base/process.h"
#include "base/temporary_file.h"
#include "calibrate/measure_messages.h"
#include "calibrate/measure_ops.h"
#include "calibrate/samples.h"

namespace gptrain {
namespace {

/// Bytes/s of a durable write in the folder, which is removed again.
double disk_bandwidth(const std::filesystem::path& folder) {
    const std::string bytes(std::size_t{128} << 20, 'x');
    const TemporaryFile probe(temporary_path(folder / "disk"));
    std::vector<double> seconds;
    for (int i = 0; i < 3; ++i)
        seconds.push_back(seconds_of([&] { write_file_durably(probe.path(), bytes); }));
    return static_cast<double>(bytes.size()) / summary(seconds).seconds;
}

/// The best rate of a core in ops that `counts` chooses; `amount` is FLOPs or bytes.
double best_rate(const std::vector<MeasuredOp>& ops, const auto& counts, const auto& amount) {
    double best = 0;
    for (const MeasuredOp& op : ops) {
        if (!counts(op)) continue;
        best = std::max(best, amount(op) / op.seconds / static_cast<double>(op.threads));
    }
    return best;
}

double flops_of(const MeasuredOp& op) {
    return op.flops;
}

double peak(const std::vector<MeasuredOp>& ops, Precision precision) {
    return best_rate(
        ops, [&](const MeasuredOp& op) { return op.rows > 0 && op.precision == precision; },
        flops_of);
}

std::vector<AttentionRate> attention_rates(const std::vector<MeasuredOp>& ops) {
    std::vector<AttentionRate> rates;
    for (const MeasuredOp& op : ops) {
        const bool known = std::any_of(rates.begin(), rates.end(), [&](const AttentionRate& rate) {
            return rate.head_dim == op.head_dim;
        });
        if (op.head_dim == 0 || known) continue;
        const auto rate_of = [&](std::string_view name) {
            return best_rate(
                ops,
                [&](const MeasuredOp& each) {
                    return each.op == name && each.head_dim == op.head_dim;
                },
                flops_of);
        };
        rates.push_back({op.head_dim, rate_of("attention_forward"), rate_of("attention_backward")});
    }
    return rates;
}

/// Measured on the update of the largest model, which no cache holds.
double memory_bandwidth(const std::vector<MeasuredOp>& ops) {
    double most = 0;
    for (const MeasuredOp& op : ops)
        if (op.op == "adamw") most = std::max(most, op.bytes);
    return best_rate(
        ops, [&](const MeasuredOp& op) { return op.op == "adamw" && op.bytes == most; },
        [](const MeasuredOp& op) { return op.bytes; });
}

/// The bandwidth of the slower direction, from and to memory that the device can access; 0 on
/// hosts.
double copy_bandwidth(Backend& backend) {
    if (backend.is_host()) return 0;
    constexpr std::int64_t bytes = std::int64_t{256} << 20;
    const Buffer device = backend.allocate(bytes, MemorySpace::device);
    const Buffer host = backend.allocate(bytes, MemorySpace::host);
    const Tensor on_device(device.data(), DType::u8, Shape{bytes});
    const Tensor on_host(host.data(), DType::u8, Shape{bytes});
    const std::unique_ptr<Stopwatch> stopwatch = backend.stopwatch();
    std::vector<double> to_device;
    std::vector<double> to_host;
    for (int i = 0; i < 4; ++i) {
        stopwatch->lap();
        backend.copy(on_device, on_host);
        stopwatch->lap();
        backend.copy(on_host, on_device);
        stopwatch->lap();
        const std::vector<double> laps = stopwatch->take_laps();
        to_device.push_back(laps[0]);
        to_host.push_back(laps[1]);
    }
    return static_cast<double>(bytes) /
           std::max(summary(to_device).seconds, summary(to_host).seconds);
}

/// Bytes of a device: on a host, an equal part of its memory for each core.
double device_memory(const Backend& backend, const NodeProfile& node) {
    if (const auto free = backend.free_bytes())
        return static_cast<double>(*free + backend.bytes_outside_arenas());
    return node.host_memory / static_cast<double>(node.devices);
}

DeviceProfile device_of(const OpTimes& times) {
    DeviceProfile device;
    device.spread = times.rank_spread;
    device.op_spread = times.op_spread;
    device.issue_seconds = times.issue_seconds;
    device.op_seconds = times.gap_seconds;
    device.peak_flops = {.fp32 = peak(times.ops, Precision::fp32),
                         .bf16 = peak(times.ops, Precision::bf16),
                         .fp16 = peak(times.ops, Precision::fp16),
                         .fp8 = peak(times.ops, Precision::fp8)};
    device.attention = attention_rates(times.ops);
    device.memory_bandwidth = memory_bandwidth(times.ops);
    device.measured = times.ops;
    return device;
}

}  // namespace

HardwareProfile calibrate(const MpiSession& session, const CalibrateOptions& options) {
    const MeasuredDevices& devices = options.devices;
    HardwareProfile profile;
    profile.kind = devices.kind;
    profile.name = host_name();
    NodeProfile& node = profile.node;
    node.devices = devices.per_node;
    node.host_memory =
        static_cast<double>(checked_mul(sysconf(_SC_PHYS_PAGES), sysconf(_SC_PAGESIZE)));
    // First, so that a folder that takes no file is an error before minutes of measuring.
    session.run_on_first([&] { node.disk_bandwidth = disk_bandwidth(options.folder); });
    // Also before, because these find ranks that cannot be measured.
    MessageTimes messages = measure_messages(session, devices);
    node.link = std::move(messages.link);
    node.network = std::move(messages.network);
    node.cards = messages.cards;

    Backend& backend = devices.backend(devices.threads);
    const double memory = device_memory(backend, node);
    const double copies = copy_bandwidth(backend);
    profile.device = device_of(measure_ops(session, devices, options.probes));
    profile.device.memory = memory;
    profile.device.copy_bandwidth = copies;
    profile.device.message_issue_seconds = messages.costs.issue_seconds;
    if (messages.costs.gemm_crowding > 0)
        profile.device.gemm_crowding = std::clamp(messages.costs.gemm_crowding, 1.0, 10.0);
    return profile;
}

}  // namespace gptrain
