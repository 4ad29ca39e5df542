// The time of ops by a hardware profile.
#pragma once

#include "hardware/op_work.h"
#include "hardware/profile.h"

namespace gptrain {

/// Seconds of an op on the device, from its start to the start of the next one if nothing else is
/// waited for:
///
/// GEMM: the longer of its memory time (traffic / bandwidth) and its compute time (waves of tiles
/// over the multiprocessors), with the fastest tile size and split of the sum:
///   waves x tile FLOPs x (1 + fill / length) / (rate / multiprocessors)
/// where the fill is gemm_fill in elements. GELU' after it adds its traffic / (bandwidth x
/// efficiency) on a device that does not fuse them.
/// The tiles of all GEMMs of a grouped op are in the same waves.
/// Attention: the longer of its traffic and of FLOPs / rate, where the rate falls as
/// S / (S + half_length) for short sequences S.
/// Others: traffic / (bandwidth x efficiency).
/// Several `devices` (cores) share the work of an op. op_seconds of the profile is added to each
/// op. An op that was measured (device.measured) takes what its neighbours in the measurement took
/// (measured_time.h).
double op_seconds(const DeviceProfile& device, const OpWork& op, double devices = 1);

/// How many times as long an op takes while messages hold `held` multiprocessors of the device.
/// GEMM: by the waves of its tiles on those that are left, or gemm_crowding. Others: in proportion.
/// 1 if the profile does not have the number of multiprocessors.
double crowding(const DeviceProfile& device, const OpWork& op, std::int64_t held);

/// Time on the slowest of `count` devices, relative to the mean device, where their times have this
/// standard deviation relative to the mean.
double slowest(double spread, std::int64_t count);

}  // namespace gptrain
