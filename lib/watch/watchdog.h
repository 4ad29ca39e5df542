// Ends a run that stands still, and says who holds it up.
//
// A rank moves when it begins or ends an action of its list, an operation with other ranks or a
// phase of the run, and while it loads or saves with every read or write that is done. As long as
// one rank moves, those that wait for it may wait. When none has moved for `hang_seconds`, every
// rank that can run exits with code 6, at most 5 seconds later, without a call of MPI or of the
// device; the lowest of them says first which rank is to blame, and where all stand. A rank whose
// own watchdog is silent (its process stopped or dead, its node lost) cannot move.
//
// Each rank watches from a thread of its own over Heartbeats. A process that was itself stopped,
// with the whole job for instance, begins to count anew.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "comm/mpi_session.h"
#include "spec/run_plan.h"
#include "watch/hang_report.h"
#include "watch/heartbeat_files.h"
#include "watch/heartbeats.h"
#include "watch/progress.h"

namespace gptrain {

struct WatchdogOptions {
    double hang_seconds = 600;  ///< 0: never
    MeshShape mesh = {};        ///< of all ranks
    std::string program = "gptrain";
};

class Watchdog {
public:
    /// All ranks call it together. Watches from here to its end.
    Watchdog(const MpiSession& session, const WatchdogOptions& options);
    ~Watchdog();

    /// What this rank does is told here.
    Progress& progress() { return progress_; }
    /// Makes heartbeats go between nodes, if there are several, through files in `folder`. All
    /// ranks call it together; before, ranks on other nodes look lost when nothing moves.
    void connect_nodes(const std::filesystem::path& folder, const MpiSession& session);

private:
    using Clock = std::chrono::steady_clock;
    /// What this watchdog has seen of a rank.
    struct Seen {
        std::int64_t beats = 0;
        Clock::time_point beat_at;  ///< when they changed last
        int changes = 0;            ///< since this rank itself moved last
    };

    void run(const std::stop_token& stop);
    /// Beats, looks at all ranks, and ends the process if the run stands still.
    void look();
    /// While files are loaded or saved, bytes that go are moves.
    void look_at_files();
    void start_anew(Clock::time_point now);
    double seconds_still(Clock::time_point now) const;
    bool beats(int rank, Clock::time_point now) const;
    bool moves(int rank, Clock::time_point now) const;
    std::vector<RankView> views(Clock::time_point now) const;
    [[noreturn]] void end(const std::vector<RankView>& ranks);
    void speak(const std::vector<RankView>& ranks) const;

    WatchdogOptions options_;
    Heartbeats heartbeats_;
    Progress progress_;
    std::unique_ptr<HeartbeatFiles> files_;
    std::atomic<HeartbeatFiles*> open_files_ = nullptr;  ///< the same for the thread
    double silent_seconds_ = 0;                          ///< without a beat a rank is lost
    double limit_seconds_ = 0;  ///< hang_seconds, or the least that silence can be told in
    std::vector<Seen> seen_;
    std::int64_t own_moves_ = 0;
    std::int64_t file_bytes_ = 0;  ///< read and written up to the last look
    Clock::time_point moved_at_;
    Clock::time_point looked_at_;
    std::jthread thread_;  // last: it uses all of the above
};

}  // namespace gptrain
