// The time of ops by a hardware profile.
#pragma once

#include <cstdint>
#include <string_view>

#include "hardware/profile.h"

namespace gptrain {

/// An op, reduced to what its time depends on.
struct OpWork {
    enum class Kind : std::uint8_t {
        gemm,
        attention_forward,
        attention_backward,
        other,
        optimizer
    };

    Kind kind = Kind::other;
    DType dtype = DType::f32;    ///< of a GEMM's operands
    std::string_view name = "";  ///< static text, as in backend/ops.h
    std::int64_t rows = 0;       ///< of a GEMM's output
    std::int64_t cols = 0;       ///< of a GEMM's output
    std::int64_t length = 0;     ///< dim that a GEMM sums over; keys of a sequence in attention
    std::int64_t head_dim = 0;   ///< of attention
    double flops = 0;
    double bytes = 0;  ///< read and written

    bool operator==(const OpWork&) const = default;
};

/// Seconds of an op on the device, from its start to the start of the next one if nothing else is
/// waited for:
///
/// GEMM: the longer of its traffic at the memory bandwidth and of its tiles in waves over the
/// multiprocessors, with the tile size and the split of the sum that are the fastest:
///   waves x tile FLOPs x (1 + fill / length) / (rate / multiprocessors)
/// where the fill is gemm_fill in elements.
/// Attention: FLOPs / rate, where the rate falls as S / (S + half_length) for short sequences S.
/// Others: traffic / (bandwidth x efficiency).
/// Several `devices` (cores) share the work of an op. op_seconds of the profile is added to each
/// op.
double op_seconds(const DeviceProfile& device, const OpWork& op, double devices = 1);

/// Time of an op on the slowest of `count` devices, relative to the mean device (device.spread).
double slowest(const DeviceProfile& device, std::int64_t count);

}  // namespace gptrain
