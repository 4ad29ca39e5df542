// Ends a run that hangs and reports the rank that blocks it.
//
// A rank moves when it starts or ends an action of its list, an operation with other ranks or a
// phase of the run and, while it loads or saves, with every completed read or write. As long as one
// rank moves, the others may wait for it. If none has moved for `hang_seconds`, or far longer than
// ever before in such a phase (silences.h), every rank that can run exits with code 6, at most 5
// seconds later, without calling MPI or the device; first the lowest of them reports which rank is
// to blame and where all ranks are. A rank with a silent watchdog (its process stopped or dead, its
// node lost) does not count as moving.
//
// Each rank watches over the ranks of its node (heartbeats.h) from a separate thread; nodes find a
// hang together (heartbeat_files.h). A process that was itself stopped, for instance with the whole
// job, starts counting again.
#pragma once

#include <atomic>
#include <cstdint>
#include <ctime>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "comm/mpi_session.h"
#include "spec/run_plan.h"
#include "watch/hang_report.h"
#include "watch/heartbeat_files.h"
#include "watch/heartbeats.h"
#include "watch/progress.h"
#include "watch/silences.h"

namespace gptrain {

struct WatchdogOptions {
    double hang_seconds = 600;  ///< 0: never
    double silence_factor = 0;  ///< of Silences; 0: hang_seconds alone counts
    MeshShape mesh = {};        ///< of all ranks
    /// Where NCCL answers questions about a hang, if it does (nccl_report_address), and the file
    /// for its answer.
    std::optional<std::string> nccl_address = {};
    std::filesystem::path nccl_file = {};
    std::string program = "gptrain";
};

class Watchdog {
public:
    /// All ranks call it together. Watches until it is destroyed.
    Watchdog(const MpiSession& session, const WatchdogOptions& options);
    ~Watchdog();

    /// Receives what this rank does.
    Progress& progress() { return progress_; }
    /// Connects nodes, if there are several, by heartbeats through files in `folder`. All ranks
    /// call it together. Until then, ranks on other nodes look lost if nothing moves.
    void connect_nodes(const std::filesystem::path& folder, const MpiSession& session);

private:
    void run(const std::stop_token& stop);
    /// Beats, checks the ranks of the node and what is known of others, and ends the process if the
    /// run hangs.
    void check();
    CoreUse use_of_cores(std::int64_t now);
    /// While the rank loads or saves, counts transferred bytes and computing as moves.
    void count_silent_moves(const RankRecord& record);
    /// When this node's ranks hang, as far as they know.
    WatchTimes times() const;
    /// `alone`: this node has decided without the others.
    [[noreturn]] void end(bool alone);
    bool reports(bool alone) const;
    void report();
    /// Keeps NCCL's own report, if there is one.
    void ask_nccl() const;

    WatchdogOptions options_;
    Heartbeats heartbeats_;
    WatchTimes longest_;
    Silences silences_;
    Progress progress_;
    std::unique_ptr<HeartbeatFiles> files_;
    std::atomic<HeartbeatFiles*> shared_files_ = nullptr;  ///< files_, for the thread
    std::int64_t own_moves_ = 0;
    std::clock_t cpu_time_ = 0;     ///< of the process, at the last check
    std::clock_t computed_ = 0;     ///< the part of it since the check before
    std::int64_t computed_ms_ = 0;  ///< when the process last computed, or would have
    std::int64_t waited_ms_ = 0;    ///< ms_without_core at the last check
    std::int64_t file_bytes_ = 0;   ///< read and written until the last check
    std::int64_t moved_ms_ = 0;
    std::int64_t checked_ms_ = 0;
    std::jthread thread_;  // last: it uses all members above
};

}  // namespace gptrain
