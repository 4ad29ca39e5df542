#include "watch/watchdog.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <future>
#include <mutex>
#include <utility>
#include <vector>

#include "base/log.h"
#include "watch/nccl_report.h"
#include "watch/process_state.h"

namespace gptrain {
namespace {

constexpr std::chrono::milliseconds tick{250};
/// A rank that has not beaten for so long does not say how long the others may wait.
constexpr std::int64_t several_ticks = 2000;
/// Time for the report: a stderr that nobody reads must not keep the ranks from exiting.
constexpr std::chrono::seconds report_timeout{2};
/// The part of it that is for reading the files of other nodes.
constexpr std::chrono::milliseconds time_to_read{1200};
/// The part of it in which NCCL may answer.
constexpr std::chrono::milliseconds time_to_ask{1700};

/// Bytes per tick above which a process counts as working on files: more than a log and the
/// launcher write.
constexpr std::int64_t file_work = 65536;

/// Processor time per tick above which a process counts as computing: more than its watching
/// threads take, even where it has a small share of a core.
constexpr std::clock_t some_computing = CLOCKS_PER_SEC / 50;
/// The same for milliseconds in which its first thread is ready to run and has no core.
constexpr std::int64_t some_waiting = 20;
/// A rank computes if it did so within this time: between two ops it may look idle.
constexpr std::int64_t lately = 1000;
/// The processor time to count as moving while it loads or saves.
constexpr std::clock_t much_computing = CLOCKS_PER_SEC / 8;

/// True while a rank reads or writes files, or makes the order of a pass over the data, without
/// reporting moves.
bool loads_or_saves(const RankRecord& record) {
    return record.phase.view() == "load" || record.phase.view() == "save" ||
           record.action.view() == loading_batch;
}

}  // namespace

Watchdog::Watchdog(const MpiSession& session, const WatchdogOptions& options)
    : options_(options),
      heartbeats_(session),
      longest_(watch_times(static_cast<std::int64_t>(options.hang_seconds * 1e3),
                           heartbeats_.several_nodes())),
      silences_(longest_.hang, options.silence_factor),
      progress_(heartbeats_.own()) {
    own_moves_ = heartbeats_.own().moves();
    moved_ms_ = checked_ms_ = node_clock_ms();
    if (options_.hang_seconds <= 0) return;
    thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

Watchdog::~Watchdog() {
    thread_ = {};
}

void Watchdog::connect_nodes(const std::filesystem::path& folder, const MpiSession& session) {
    if (!heartbeats_.several_nodes() || options_.hang_seconds <= 0) return;
    files_ = std::make_unique<HeartbeatFiles>(heartbeats_, longest_, folder, session);
    shared_files_ = files_.get();
}

void Watchdog::run(const std::stop_token& stop) {
    std::mutex mutex;
    std::condition_variable_any changed;
    std::unique_lock lock(mutex);
    while (!stop.stop_requested()) {
        check();
        changed.wait_for(lock, stop, tick, [] { return false; });
    }
}

WatchTimes Watchdog::times() const {
    // Without news of other nodes only the longest limit is safe.
    if (heartbeats_.several_nodes() && shared_files_ == nullptr) return longest_;
    const std::int64_t own = heartbeats_.limit_ms(node_clock_ms(), several_ticks);
    return own == 0 ? longest_ : watch_times(own, heartbeats_.several_nodes());
}

void Watchdog::check() {
    const std::int64_t now = node_clock_ms();
    // This process was itself stopped: start counting again.
    if (now - checked_ms_ > times().silent) moved_ms_ = now;
    checked_ms_ = now;
    const RankRecord record = heartbeats_.own().record();
    const CoreUse cores = use_of_cores(now);
    count_silent_moves(record);
    if (const std::int64_t own = heartbeats_.own().moves(); own != own_moves_) {
        own_moves_ = own;
        moved_ms_ = now;
    }
    heartbeats_.own().beat(now, moved_ms_, silences_.limit(record, cores));
    const std::int64_t moved = heartbeats_.moved_ms();
    silences_.observe(record, cores, now, moved);
    if (HeartbeatFiles* files = shared_files_) {
        files->watch().set_hang(times().hang);
        if (files->watch().hang() != NodeWatch::no_hang) end(false);
        if (files->watch().must_decide_alone(now, moved)) end(true);
    } else if (now - moved >= times().limit) {
        end(true);
    }
}

CoreUse Watchdog::use_of_cores(std::int64_t now) {
    const std::clock_t cpu_time = std::clock();
    computed_ = cpu_time - std::exchange(cpu_time_, cpu_time);
    const std::int64_t waited = ms_without_core();
    const bool ready = waited - std::exchange(waited_ms_, waited) >= some_waiting;
    if (computed_ >= some_computing || ready || is_blocked()) computed_ms_ = now;
    return {.computes = now - computed_ms_ < lately, .waited_ms = waited};
}

void Watchdog::count_silent_moves(const RankRecord& record) {
    if (!loads_or_saves(record)) return;
    const HeartbeatFiles* files = shared_files_;
    const std::int64_t bytes = bytes_read_and_written() - (files == nullptr ? 0 : files->bytes());
    const bool computes = record.waiting == 0 && computed_ >= much_computing;
    if (bytes - file_bytes_ >= file_work || computes) progress_.record_move();
    file_bytes_ = bytes;
}

/// The lowest rank that is alive on the node that reports.
bool Watchdog::reports(bool alone) const {
    const HeartbeatFiles* files = shared_files_;
    if (!alone && files->watch().hang() != NodeWatch::to_report) return false;
    for (std::size_t i = 0; i < heartbeats_.members().size(); ++i) {
        if (heartbeats_.members()[i] == heartbeats_.rank()) return true;
        if (heartbeats_.member(i).is_alive(node_clock_ms(), times().silent)) return false;
    }
    return false;
}

void Watchdog::end(bool alone) {
    NodeDuties& duties = heartbeats_.duties();
    const auto until = std::chrono::steady_clock::now() + report_timeout;
    std::int64_t nobody = 0;
    if (reports(alone) && duties.reporter.compare_exchange_strong(nobody, heartbeats_.rank() + 1)) {
        // In a separate thread, which may never return: a hanging thread may hold the log.
        std::promise<void> reported;
        std::future<void> done = reported.get_future();
        std::thread([this, &duties, &reported] {
            // At once: when a rank leaves, so does its NCCL.
            std::thread asking([this] { ask_nccl(); });
            report();
            asking.join();
            duties.reported = 1;
            if (HeartbeatFiles* files = shared_files_) files->announce();
            reported.set_value();
        }).detach();
        done.wait_until(until);
        duties.reported = 1;
    }
    // A launcher kills all ranks when the first one exits.
    while (duties.reported == 0 && std::chrono::steady_clock::now() < until)
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
    std::_Exit(static_cast<int>(ExitCode::hang));
}

void Watchdog::ask_nccl() const {
    if (!options_.nccl_address) return;
    try {
        if (keep_nccl_report(*options_.nccl_address, options_.nccl_file, time_to_ask))
            warn("NCCL's own report on the hang: ", options_.nccl_file.string());
    } catch (const std::exception& error) {
        warn(error.what(), ": NCCL's own report on the hang is lost");
    }
}

void Watchdog::report() {
    std::vector<RankView> ranks(static_cast<std::size_t>(heartbeats_.ranks()), RankView{{}, false});
    for (std::size_t i = 0; i < heartbeats_.members().size(); ++i) {
        const RankSlot& slot = heartbeats_.member(i);
        ranks[static_cast<std::size_t>(heartbeats_.members()[i])] = {
            slot.record(), slot.is_alive(node_clock_ms(), times().silent)};
    }
    if (HeartbeatFiles* files = shared_files_) files->add_others(ranks, time_to_read);
    const int culprit = find_culprit(ranks, options_.mesh).rank;
    const RankRecord& record = ranks[static_cast<std::size_t>(culprit)].record;
    const bool here = record.host.view() == heartbeats_.own().record().host.view();
    const std::string sign = here ? describe_process_state(record.pid) : "";
    // To stderr, because ranks other than 0 have no stdout.
    warn("the run hangs; ranks are at:");
    for (const std::string& line : hang_table(ranks))
        warn("  ", line);
    const std::int64_t hang = times().hang;
    error_line(options_.program, hang_message(ranks, options_.mesh, sign,
                                              {.seconds = static_cast<double>(hang) / 1e3,
                                               .hang_seconds = options_.hang_seconds}));
}

}  // namespace gptrain
