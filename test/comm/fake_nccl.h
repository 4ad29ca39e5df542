// NCCL's functions as the communicator calls them, over MPI and host memory. They check what NCCL
// requires of its callers, and can be made to fail.
#pragma once

#include <vector>

#include "cuda/runtime/libraries.h"

namespace gptrain::test {

cuda::Nccl fake_nccl();

/// The answers of the functions, and a record of their calls.
struct FakeState {
    ncclResult_t async_error = ncclSuccess;  ///< of every communicator
    ncclResult_t all_gather = ncclSuccess;   ///< what ncclAllGather returns
    int version = NCCL_VERSION(2, 30, 0);    ///< as ncclGetVersion gives it
    std::vector<int> most_blocks = {};       ///< maxCTAs of each connected communicator
    int polls_in_progress = 0;               ///< how often NCCL reports that it is not done yet
    int open_groups = 0;
    int finalized = 0;
    int destroyed = 0;
    int aborted = 0;
};
FakeState& fake_state();

}  // namespace gptrain::test
