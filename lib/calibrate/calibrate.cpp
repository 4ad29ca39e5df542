#include "calibrate/calibrate.h"

#include <algorithm>
#include <unistd.h>

#include "base/checked.h"
#include "base/process.h"
#include "base/temporary_file.h"
#include "calibrate/measure_messages.h"
#include "calibrate/samples.h"

namespace gptrain {
namespace {

/// Bytes/s of a durable write next to the profile, which is removed again.
double disk_bandwidth(const std::filesystem::path& file) {
    const std::string bytes(std::size_t{128} << 20, 'x');
    const TemporaryFile probe(temporary_path(file));
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

/// Of the update of the largest model, which no cache holds.
double memory_bandwidth(const std::vector<MeasuredOp>& ops) {
    double most = 0;
    for (const MeasuredOp& op : ops)
        if (op.op == "adamw") most = std::max(most, op.bytes);
    return best_rate(
        ops, [&](const MeasuredOp& op) { return op.op == "adamw" && op.bytes == most; },
        [](const MeasuredOp& op) { return op.bytes; });
}

LinkProfile link_of(std::vector<MeasuredMessage> messages) {
    LinkProfile link;
    for (const MeasuredMessage& message : messages) {
        link.bandwidth = std::max(link.bandwidth, message.bytes / message.seconds);
        link.latency =
            link.latency == 0 ? message.seconds : std::min(link.latency, message.seconds);
    }
    link.measured = std::move(messages);
    return link;
}

}  // namespace

HardwareProfile calibrate(const MpiSession& session, const CalibrateOptions& options) {
    if (session.local_size() != session.size()) {
        fail(ExitCode::usage,
             "--calibrate measures one node, and these ranks are on several; start them on one");
    }
    HardwareProfile profile;
    profile.kind = DeviceChoice::cpu;
    profile.name = host_name();
    // First, so that a folder that takes no file is an error before minutes of measuring.
    session.run_on_first([&] {
        if (std::filesystem::is_directory(options.file))
            fail(ExitCode::usage, "--calibrate ", options.file.string(),
                 ": is a folder; name a file");
        profile.node.disk_bandwidth = disk_bandwidth(options.file);
    });
    OpTimes times =
        measure_ops(session, options.make, options.probes, options.threads, options.max_threads);
    profile.device.measured = std::move(times.ops);
    profile.device.spread = times.rank_spread;
    profile.device.op_spread = times.op_spread;
    const std::vector<MeasuredOp>& ops = profile.device.measured;
    profile.device.peak_flops = {.fp32 = peak(ops, Precision::fp32),
                                 .bf16 = peak(ops, Precision::bf16)};
    profile.device.attention = attention_rates(ops);
    profile.device.memory_bandwidth = memory_bandwidth(ops);
    profile.node.devices =
        std::max(std::int64_t{options.threads} * session.size(), std::int64_t{1});
    profile.node.host_memory =
        static_cast<double>(checked_mul(sysconf(_SC_PHYS_PAGES), sysconf(_SC_PAGESIZE)));
    profile.device.memory = profile.node.host_memory / static_cast<double>(profile.node.devices);
    const std::unique_ptr<Backend> backend = options.make(options.threads);
    profile.node.link = link_of(measure_messages(session, *backend));
    return profile;
}

}  // namespace gptrain
