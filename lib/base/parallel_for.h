// A loop shared by a few threads.
#pragma once

#include <cstdint>
#include <functional>

namespace gptrain {

/// Calls `work` for every index in [0, count), in any order, on the calling thread and up to
/// `threads` - 1 others. Rethrows the first exception once all threads have ended; some indices may
/// then have been skipped.
void parallel_for(std::int64_t count, int threads, const std::function<void(std::int64_t)>& work);

/// The threads that run at a time on this machine; 1 if it does not say.
int machine_threads();

}  // namespace gptrain
