// The times of ops, measured in training steps of small models.
#pragma once

#include <span>
#include <vector>

#include "calibrate/measured_devices.h"
#include "calibrate/probes.h"
#include "comm/mpi_session.h"
#include "hardware/profile.h"

namespace gptrain {

struct OpTimes {
    std::vector<MeasuredOp> ops;  ///< as this rank measured them
    /// DeviceProfile.spread and op_spread, equal on all ranks: found from the slowest rank and the
    /// mean of the ranks in each step, and each of its ops, that all ranks computed at the same
    /// time. 0 for a single rank.
    double rank_spread = 0;
    double op_spread = 0;
    /// As DeviceProfile.issue_seconds and op_seconds; 0 on hosts, which compute what they issue.
    double issue_seconds = 0;
    double gap_seconds = 0;
};

/// Runs steps of the probes and times each of their ops: on all ranks at once, with
/// `devices.threads` threads each; then on half the ranks with twice as many threads, and so on up
/// to one rank, or to `max_threads` threads. Split probes run once, on all ranks, if their number
/// is even. Leaves out a probe for which device memory is short, with a warning. All ranks call it
/// together.
OpTimes measure_ops(const MpiSession& session, const MeasuredDevices& devices,
                    std::span<const Probe> probes);

}  // namespace gptrain
