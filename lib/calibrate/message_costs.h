// The costs of messages between GPUs other than the time in which their data move.
#pragma once

#include <cstdint>

#include "backend/backend.h"
#include "comm/communicator.h"

namespace gptrain {

struct MessageCosts {
    double issue_seconds = 0;  ///< of the host, for each message
    double gemm_crowding = 0;  ///< time of a GEMM while messages are in flight / alone
};

/// Measures them with sums over these ranks, more than one, and GEMMs of `width` x `width` x
/// `width` in bf16. All ranks call it together; the result is this rank's.
MessageCosts measure_message_costs(Communicator& ranks, Backend& backend, std::int64_t width);

}  // namespace gptrain
