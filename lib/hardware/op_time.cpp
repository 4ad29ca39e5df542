#include "hardware/op_time.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <numbers>

#include "base/checked.h"
#include "hardware/measured_time.h"

namespace gptrain {
namespace {

double pieces(std::int64_t size, std::int64_t piece) {
    return static_cast<double>(div_ceil(size, piece));
}

double gemm_rate(const DeviceProfile& device, DType dtype) {
    const double rate = device.peak_flops.of(dtype) * device.gemm_efficiency.of(dtype);
    if (rate <= 0) {
        fail(ExitCode::usage, "hardware: the profile's device has no GEMMs in ", name_of(dtype),
             " (device.peak_flops, device.gemm_efficiency)");
    }
    return rate;
}

/// Seconds of a GEMM's arithmetic in tiles of one size, with the sum split into `parts`, on `used`
/// of the multiprocessors.
double tiled_seconds(const DeviceProfile& device, const OpWork& op, const GemmTile& tile,
                     std::int64_t parts, std::int64_t used) {
    const double tiles = pieces(op.rows, tile.rows) * pieces(op.cols, tile.cols) *
                         static_cast<double>(parts * op.groups);
    const double rate = gemm_rate(device, op.dtype) / static_cast<double>(device.multiprocessors);
    const double length = static_cast<double>(op.length) / static_cast<double>(parts);
    const double flops = 2 * static_cast<double>(tile.rows) * static_cast<double>(tile.cols) *
                         (length + device.gemm_fill / static_cast<double>(size_of(op.dtype)));
    return std::ceil(tiles / static_cast<double>(used)) * flops / (rate * tile.speed);
}

double gemm_seconds(const DeviceProfile& device, const OpWork& op, std::int64_t used) {
    if (device.gemm_tiles.empty()) return op.flops / gemm_rate(device, op.dtype);
    double least = std::numeric_limits<double>::infinity();
    for (const GemmTile& tile : device.gemm_tiles) {
        for (const std::int64_t parts : {1, 2, 4, 8})
            least = std::min(least, tiled_seconds(device, op, tile, parts, used));
    }
    return least;
}

/// The rate of the nearest head size.
const AttentionRate& attention_rate(const DeviceProfile& device, std::int64_t head_dim) {
    return *std::min_element(device.attention.begin(), device.attention.end(),
                             [&](const AttentionRate& a, const AttentionRate& b) {
                                 return std::abs(a.head_dim - head_dim) <
                                        std::abs(b.head_dim - head_dim);
                             });
}

double seconds_of_bytes(const DeviceProfile& device, double bytes) {
    return bytes / (device.memory_bandwidth * device.memory_efficiency);
}

double attention_seconds(const DeviceProfile& device, const OpWork& op) {
    const AttentionRate& rate = attention_rate(device, op.head_dim);
    const auto length = static_cast<double>(op.length);
    const double share = length / (length + device.attention_half_length);
    const bool forward = op.kind == OpWork::Kind::attention_forward;
    // The rates are of attention without FP8. As if no multiply hid its bytes.
    return op.flops / (share * (forward ? rate.forward : rate.backward)) +
           seconds_of_bytes(device, op.fp8_bytes);
}

double traffic_seconds(const DeviceProfile& device, const OpWork& op) {
    for (const OpBandwidth& own : device.op_bandwidths)
        if (own.op == op.name) return op.bytes / own.bandwidth;
    return seconds_of_bytes(device, op.bytes);
}

/// Seconds of the kernel after a GEMM.
double gelu_seconds(const DeviceProfile& device, const OpWork& op) {
    return seconds_of_bytes(device, (device.fuses_gelu ? 0 : op.gelu_bytes) +
                                        (device.fuses_gelu_gradient ? 0 : op.gelu_gradient_bytes));
}

double work_seconds(const DeviceProfile& device, const OpWork& op) {
    using enum OpWork::Kind;
    switch (op.kind) {
        case gemm:
            return std::max(gemm_seconds(device, op, device.multiprocessors),
                            traffic_seconds(device, op)) +
                   gelu_seconds(device, op);
        case attention_forward:
        case attention_backward:
            return std::max(attention_seconds(device, op), traffic_seconds(device, op));
        default: return traffic_seconds(device, op);
    }
}

bool has_fewer_rows(const std::vector<MeasuredOp>& measured, const OpWork& op) {
    return std::none_of(measured.begin(), measured.end(), [&](const MeasuredOp& each) {
        return each.op == op.name && each.rows <= op.rows;
    });
}

}  // namespace

double crowding(const DeviceProfile& device, const OpWork& op, std::int64_t held) {
    const bool is_gemm = op.kind == OpWork::Kind::gemm;
    if (held == 0) return 1;
    if (is_gemm && device.gemm_crowding > 0) return device.gemm_crowding;
    const std::int64_t all = device.multiprocessors;
    const std::int64_t left = all - held;
    if (left <= 0) return 1;
    if (is_gemm && !device.gemm_tiles.empty())
        return gemm_seconds(device, op, left) / gemm_seconds(device, op, all);
    return static_cast<double>(all) / static_cast<double>(left);
}

double slowest(double spread, std::int64_t count) {
    if (count == 1 || spread == 0) return 1;
    // Blom's estimate of the largest of n normal numbers: where their distribution reaches
    // (n - 3/8) / (n + 1/4).
    const auto n = static_cast<double>(count);
    double low = 0;
    double high = 10;
    while (high - low > 1e-6) {
        const double middle = (low + high) / 2;
        const double above = std::erfc(middle / std::numbers::sqrt2) / 2;
        (above > 0.625 / (n + 0.25) ? low : high) = middle;
    }
    return 1 + spread * low;
}

double op_seconds(const DeviceProfile& device, const OpWork& op, double devices) {
    const auto measured = measured_op_seconds(device.measured, op, devices);
    if (!measured) return device.op_seconds + work_seconds(device, op) / devices;
    // With fewer rows than measured ones a GEMM reads the same weights for less arithmetic.
    const bool is_small = op.kind == OpWork::Kind::gemm && has_fewer_rows(device.measured, op);
    const double traffic = is_small ? traffic_seconds(device, op) / devices : 0;
    return device.op_seconds + std::max(*measured, traffic);
}

}  // namespace gptrain
