// The next batch of all data ranks.
#pragma once

#include <functional>

#include "comm/mesh.h"
#include "comm/mpi_session.h"
#include "data/microbatch.h"

namespace gptrain {

/// This data rank's part of a batch, as `load` returns it, with the weight_sum of the global batch.
/// All ranks call it. If `load` fails on some, all throw the first failure as a CommonError.
StepBatch next_batch(const std::function<StepBatch()>& load, const MeshPlace& place,
                     const MpiSession& ranks);

}  // namespace gptrain
