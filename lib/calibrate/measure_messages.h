// The times of messages between ranks, measured.
#pragma once

#include <vector>

#include "backend/backend.h"
#include "comm/mpi_session.h"
#include "hardware/profile.h"

namespace gptrain {

/// Times every operation of a communicator over all ranks, which must be on one node, with messages
/// of a hundred bytes to some megabytes. All ranks call it together; nothing for a single rank.
std::vector<MeasuredMessage> measure_messages(const MpiSession& session, Backend& backend);

}  // namespace gptrain
