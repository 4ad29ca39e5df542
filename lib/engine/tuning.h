// How the ranks come to compute linear ops in the same way, which their bits depend on.
#pragma once

#include <functional>
#include <string>

#include "backend/backend.h"
#include "backend/linear_op.h"
#include "comm/mpi_session.h"

namespace gptrain {

/// Has a backend that tunes try each of the ops once, on matrices of random numbers; returns its
/// choices. Takes device memory for the largest op's matrices, for scratch (`limits`) and 1 MiB,
/// and gives it back: less than a run takes that has these ops. The backend needs other scratch
/// memory afterwards. `moved` is called after each op.
std::string try_linear_ops(
    Backend& backend, const LinearOps& ops, const OpLimits& limits,
    const std::function<void()>& moved = [] {});

/// All ranks call it before they take their memory, each with the ops that it will call. Rank 0
/// tries those of all ranks, and all compute by its choices. Says a warning where some rank cannot
/// use them. Without a backend that tunes there is nothing to do.
void tune_together(Backend& backend, const LinearOps& own, const OpLimits& limits,
                   const MpiSession& ranks, const std::function<void()>& moved);

}  // namespace gptrain
