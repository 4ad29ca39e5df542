#include "train/lock_directory.h"

#include <cstdlib>
#include <thread>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"

namespace gptrain {

using Clock = std::chrono::steady_clock;

std::chrono::seconds lock_patience() {
    const char* restarts = std::getenv("SLURM_RESTART_COUNT");
    const bool restarted = restarts != nullptr && parse_int(restarts).value_or(0) > 0;
    return std::chrono::minutes(restarted ? 5 : 0);
}

void lock_directory(std::optional<RunDirectory>& directory, const std::filesystem::path& folder,
                    std::chrono::seconds patience, const MpiSession& ranks,
                    const std::function<void()>& on_progress) {
    const ExitCode if_held = patience.count() > 0 ? ExitCode::hang : ExitCode::usage;
    const Clock::time_point end = Clock::now() + patience;
    bool reported = false;
    const auto try_once = [&] {
        try {
            directory.emplace(folder, if_held);
        } catch (const Error& error) {
            if (error.code() != ExitCode::hang || Clock::now() >= end) throw;
            if (!reported)
                warn(error.what(), "; after a restart by Slurm it may be about to end: waiting ",
                     "for up to ", static_cast<std::int64_t>(patience.count()), " seconds");
            reported = true;
            std::this_thread::sleep_for(std::chrono::milliseconds(500));
        }
    };
    // In short operations, because a rank that waits long in one of them looks hung.
    bool waiting = true;
    while (waiting) {
        on_progress();
        ranks.run_on_first(try_once);
        waiting = ranks.max(ranks.rank() == 0 && !directory ? 1 : 0) > 0;
    }
}

}  // namespace gptrain
