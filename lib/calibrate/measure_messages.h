// The times of messages between ranks, measured.
#pragma once

#include "calibrate/measured_devices.h"
#include "calibrate/message_costs.h"
#include "comm/mpi_session.h"
#include "hardware/profile.h"

namespace gptrain {

/// The part of a profile about messages.
struct MessageTimes {
    LinkProfile link;                         ///< bandwidth 0: one rank on each node
    std::optional<LinkProfile> network = {};  ///< none: one node
    std::int64_t cards = 1;
    MessageCosts costs = {};  ///< of GPUs, with several ranks on a node
};

/// Inside a node: times every operation of a communicator over its ranks, with messages of a
/// hundred bytes to some megabytes. Between nodes: times messages from each node to the next one,
/// of one rank and of all ranks at the same time; where one alone has a higher rate, they share
/// network cards. All ranks call it together. The result is rank 0's.
///
/// The ranks of a node are consecutive, and all nodes have as many: anything else is a CommonError
/// (usage).
MessageTimes measure_messages(const MpiSession& session, const MeasuredDevices& devices);

/// For tests: counts each `per_node` ranks as a node, wherever they run.
MessageTimes measure_messages(const MpiSession& session, const MeasuredDevices& devices,
                              std::int64_t per_node);

}  // namespace gptrain
