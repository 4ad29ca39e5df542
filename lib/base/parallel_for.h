// Work that a few threads share.
#pragma once

#include <cstdint>
#include <functional>

namespace gptrain {

/// Calls `work` for every index in [0, count), in no order, on the calling thread and on up to
/// `threads` - 1 others. The first exception is thrown here once all have ended; by then not all
/// indices may have had their turn.
void parallel_for(std::int64_t count, int threads, const std::function<void(std::int64_t)>& work);

}  // namespace gptrain
