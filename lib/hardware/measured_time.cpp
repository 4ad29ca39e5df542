#include "hardware/measured_time.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace gptrain {
namespace {

/// Smaller distances count as zero.
constexpr double same = 1e-3;

double square_of_log_ratio(double a, double b) {
    const double difference = std::log(std::max(a, 1.0) / std::max(b, 1.0));
    return difference * difference;
}

/// The square of the distance between two ops of the same name.
double square_distance(const MeasuredOp& a, const OpWork& b) {
    double sum = square_of_log_ratio(a.bytes, b.bytes);
    const std::array<std::pair<std::int64_t, std::int64_t>, 4> sizes = {
        {{a.rows, b.rows}, {a.cols, b.cols}, {a.length, b.length}, {a.head_dim, b.head_dim}}};
    for (const auto& [one, other] : sizes)
        sum += square_of_log_ratio(static_cast<double>(one), static_cast<double>(other));
    return sum;
}

double amount(double flops, double bytes) {
    return flops > 0 ? flops : bytes;
}

/// The thread count nearest to `wanted` with which the op was measured; 0 if it was not.
std::int64_t nearest_threads(const std::vector<MeasuredOp>& measured, const OpWork& op,
                             std::int64_t wanted) {
    std::int64_t best = 0;
    double least = std::numeric_limits<double>::infinity();
    for (const MeasuredOp& each : measured) {
        if (each.op != op.name || each.precision != precision_of(op.dtype)) continue;
        const double distance =
            square_of_log_ratio(static_cast<double>(each.threads), static_cast<double>(wanted));
        if (distance < least) {
            least = distance;
            best = each.threads;
        }
    }
    return best;
}

}  // namespace

Precision precision_of(DType dtype) {
    switch (dtype) {
        case DType::bf16: return Precision::bf16;
        case DType::f16: return Precision::fp16;
        case DType::f8e4m3:
        case DType::f8e5m2: return Precision::fp8;
        default: return Precision::fp32;
    }
}

std::optional<double> measured_op_seconds(const std::vector<MeasuredOp>& measured, const OpWork& op,
                                          double cores) {
    const auto wanted = std::max<std::int64_t>(1, static_cast<std::int64_t>(cores));
    const std::int64_t threads = nearest_threads(measured, op, wanted);
    if (threads == 0 || op.bytes <= 0) return std::nullopt;
    double weights = 0;
    double sum = 0;
    for (const MeasuredOp& each : measured) {
        if (each.op != op.name || each.precision != precision_of(op.dtype)) continue;
        if (each.threads != threads) continue;
        const double distance = std::max(square_distance(each, op), same * same);
        const double weight = 1 / (distance * distance);
        weights += weight;
        sum += weight * std::log(amount(each.flops, each.bytes) / each.seconds);
    }
    const double speed = std::exp(sum / weights) * static_cast<double>(wanted) /
                         static_cast<double>(threads) * std::min(cores, 1.0);
    return amount(op.flops, op.bytes) / speed;
}

double messages_of(std::string_view operation, std::int64_t ranks) {
    if (operation == "send" || operation == "recv" || operation == "send_recv") return 1;
    return static_cast<double>(ranks - 1) * (operation == "all_reduce" ? 2 : 1);
}

std::optional<double> measured_message_seconds(const std::vector<MeasuredMessage>& measured,
                                               std::string_view operation, std::int64_t ranks,
                                               double sent) {
    const std::string_view name = operation == "send" ? "recv" : operation;
    std::vector<MeasuredMessage> sizes;
    for (const MeasuredMessage& each : measured)
        if (each.operation == name) sizes.push_back(each);
    if (sizes.empty() || ranks < 2) return std::nullopt;
    std::sort(sizes.begin(), sizes.end(),
              [](const auto& a, const auto& b) { return a.bytes < b.bytes; });
    const double messages = messages_of(operation, ranks);
    const double bytes = std::max(sent / messages, 1.0);
    const MeasuredMessage& first = sizes.front();
    const MeasuredMessage& last = sizes.back();
    if (bytes <= first.bytes) return messages * first.seconds;
    if (bytes >= last.bytes) return messages * last.seconds * bytes / last.bytes;
    const auto above =
        std::find_if(sizes.begin(), sizes.end(), [&](const auto& s) { return s.bytes > bytes; });
    const MeasuredMessage& below = above[-1];
    const double share = std::log(bytes / below.bytes) / std::log(above->bytes / below.bytes);
    return messages * below.seconds * std::pow(above->seconds / below.seconds, share);
}

}  // namespace gptrain
