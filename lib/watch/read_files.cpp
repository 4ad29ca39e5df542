#include "watch/read_files.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>

#include "base/file.h"

namespace gptrain {
namespace {

/// Shared by the caller and its threads, and held by those that are left behind.
struct Reading {
    std::vector<std::filesystem::path> paths;
    std::size_t most = 0;
    std::atomic<std::size_t> next = 0;
    std::mutex mutex;
    std::condition_variable changed;
    std::size_t finished = 0;                      // guarded by mutex
    std::vector<std::vector<std::byte>> contents;  // guarded by mutex
};

std::vector<std::byte> beginning_of(const std::filesystem::path& path, std::size_t most) {
    try {
        File file(path, File::Mode::read);
        std::vector<std::byte> bytes(most);
        bytes.resize(file.read(bytes));
        return bytes;
    } catch (const Error&) {
        return {};
    }
}

void read_some(Reading& reading) {
    for (std::size_t i = reading.next++; i < reading.paths.size(); i = reading.next++) {
        std::vector<std::byte> bytes = beginning_of(reading.paths[i], reading.most);
        const std::lock_guard lock(reading.mutex);
        reading.contents[i] = std::move(bytes);
        ++reading.finished;
        reading.changed.notify_one();
    }
}

}  // namespace

std::vector<std::vector<std::byte>> read_files(const std::vector<std::filesystem::path>& paths,
                                               std::size_t most, const ReadLimits& limits) {
    using Clock = std::chrono::steady_clock;
    constexpr std::size_t most_threads = 8;
    constexpr std::size_t files_per_thread = 16;
    const auto reading = std::make_shared<Reading>();
    reading->paths = paths;
    reading->most = most;
    reading->contents.resize(paths.size());
    const std::size_t threads =
        std::min(most_threads, (paths.size() + files_per_thread - 1) / files_per_thread);
    for (std::size_t i = 0; i < threads; ++i) {
        try {
            std::thread([reading] { read_some(*reading); }).detach();
        } catch (const std::system_error&) {
            if (i == 0) return std::vector<std::vector<std::byte>>(paths.size());
            break;
        }
    }
    const Clock::time_point end = Clock::now() + limits.all;
    std::unique_lock lock(reading->mutex);
    for (std::size_t seen = 0; seen < paths.size(); seen = reading->finished) {
        const Clock::time_point until = std::min(end, Clock::now() + limits.patience);
        if (!reading->changed.wait_until(lock, until, [&] { return reading->finished > seen; }))
            break;
    }
    // Threads left behind may still add theirs.
    return reading->contents;
}

}  // namespace gptrain
