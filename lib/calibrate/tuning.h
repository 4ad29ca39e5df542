// Makes all ranks compute linear ops in the same way, because the bits of the results depend on it.
#pragma once

#include <functional>
#include <string>

#include "backend/backend.h"
#include "backend/linear_op.h"
#include "comm/mpi_session.h"

namespace gptrain {

/// Makes a backend that tunes try each op once, on random matrices, and returns its choices.
/// Allocates device memory for the matrices of the largest op, for scratch (`limits`) and 1 MiB,
/// and releases it; this is less than a run with these ops needs. Afterwards the backend must be
/// given other scratch memory. Calls `on_progress` after each op.
std::string try_linear_ops(
    Backend& backend, const LinearOps& ops, const OpLimits& limits,
    const std::function<void()>& on_progress = [] {});

/// All ranks call it before they allocate their memory, each with the ops that it will use. If the
/// backend tunes, rank 0 tries the ops of all ranks, and all ranks use its choices; warns if some
/// rank cannot use them. If the backend loads code late, each rank then runs its ops once, because
/// loading may wait for the device, and during a step messages would be in flight there. Calls
/// `on_progress` after each op.
void prepare_linear_ops(Backend& backend, const LinearOps& own, const OpLimits& limits,
                        const MpiSession& ranks, const std::function<void()>& on_progress);

}  // namespace gptrain
