// The sum over ranks of what each has sent, in rank order.
#pragma once

#include <span>

#include "base/dtype.h"
#include "comm/byte_runs.h"
#include "comm/peer_limits.h"
#include "cuda/runtime/runtime.h"

namespace gptrain::cuda {

/// to = reduce_runs(from) (comm/byte_runs.h), bit for bit: sums of 16-bit floats are in fp32 and
/// rounded once. At most most_peers ranks; all memory is accessible to the device.
void reduce_ranks(const ByteRuns& to, std::span<const ByteRuns> from, DType dtype, Reduce reduce,
                  const Stream& stream);

}  // namespace gptrain::cuda
