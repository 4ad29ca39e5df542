// The timed steps of a probe.
#pragma once

#include <optional>
#include <vector>

#include "calibrate/measured_devices.h"
#include "calibrate/op_timer.h"
#include "calibrate/probes.h"
#include "comm/mpi_session.h"

namespace gptrain {

constexpr int timed_steps = 4;

/// The times measured in the steps of a probe.
struct ProbeTimes {
    std::vector<OpTimer::TimedOp> ops;  ///< of timed_steps steps, which have the same ops
    // 0 on hosts, which compute what they issue.
    double issue_seconds = 0;  ///< of the host to issue an op
    double gap_seconds = 0;    ///< of a step beyond its ops, for each of them
};

/// Runs a probe on this rank alone, or on a mesh of all ranks if they share its model. Empty if a
/// device has too little memory for it. The ranks of devices that are no hosts call it together.
std::optional<ProbeTimes> run_probe(const Probe& probe, int threads, const MpiSession& session,
                                    const MeasuredDevices& devices);

}  // namespace gptrain
