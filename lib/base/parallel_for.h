// A loop shared by a few threads.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace gptrain {

/// Cores of this machine, at least 1.
int core_count();

/// Calls `work` for every index in [0, count), in any order, on the calling thread and up to
/// `threads` - 1 others. Rethrows the first exception once all threads have ended; some indices may
/// then have been skipped.
void parallel_for(std::int64_t count, int threads, const std::function<void(std::int64_t)>& work);

/// The results of `work` for the items, in their order, by a thread for each core.
template <class Item, class Work>
auto parallel_map(const std::vector<Item>& items, const Work& work) {
    std::vector<decltype(work(items.front()))> results(items.size());
    parallel_for(std::ssize(items), core_count(), [&](std::int64_t i) {
        const auto index = static_cast<std::size_t>(i);
        results[index] = work(items[index]);
    });
    return results;
}

}  // namespace gptrain
