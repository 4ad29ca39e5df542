#include "watch/watchdog.h"

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <future>
#include <mutex>

#include "base/log.h"
#include "watch/process_state.h"

namespace gptrain {
namespace {

constexpr std::chrono::milliseconds tick{250};
/// Time for the report: a stderr that nobody reads must not keep the ranks from exiting.
constexpr std::chrono::seconds report_timeout{2};

/// Heartbeats of other nodes are a few seconds late: they are written once a second and read once a
/// second.
double min_silence(bool several_nodes) {
    return several_nodes ? 4 : 1;
}

/// Bytes per tick above which a process counts as working on files: more than a log and the
/// launcher write.
constexpr std::int64_t file_work = 65536;

/// True in phases in which a rank reads or writes files without reporting moves.
bool works_on_files(const RankRecord& record) {
    return record.phase.view() == "load" || record.phase.view() == "save";
}

}  // namespace

Watchdog::Watchdog(const MpiSession& session, const WatchdogOptions& options)
    : options_(options), heartbeats_(session), progress_(heartbeats_.own()) {
    const double least = min_silence(heartbeats_.several_nodes());
    constexpr double most = 10;
    silent_seconds_ = std::clamp(options_.hang_seconds / 2, least, most);
    limit_seconds_ = std::max(options_.hang_seconds, silent_seconds_ + 1);
    restart(Clock::now());
    if (options_.hang_seconds <= 0) return;
    thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

Watchdog::~Watchdog() {
    thread_ = {};
}

void Watchdog::connect_nodes(const std::filesystem::path& folder, const MpiSession& session) {
    if (!heartbeats_.several_nodes() || options_.hang_seconds <= 0) return;
    files_ = std::make_unique<HeartbeatFiles>(heartbeats_, folder, session);
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

void Watchdog::restart(Clock::time_point now) {
    states_.assign(static_cast<std::size_t>(heartbeats_.ranks()), {0, now, 0});
    own_moves_ = heartbeats_.own().moves();
    moved_at_ = checked_at_ = now;
}

double Watchdog::seconds_without_move(Clock::time_point now) const {
    return std::chrono::duration<double>(now - moved_at_).count();
}

bool Watchdog::alive(int rank, Clock::time_point now) const {
    const auto silent = now - states_[static_cast<std::size_t>(rank)].beat_at;
    return std::chrono::duration<double>(silent).count() < silent_seconds_;
}

/// The rank's own watchdog reports how long it has not moved. The first heartbeat seen of a rank
/// may be old, because other nodes are not read all the time, so later ones must follow it.
bool Watchdog::moves(int rank, Clock::time_point now) const {
    const RankState& state = states_[static_cast<std::size_t>(rank)];
    if (state.changes < 2 && !alive(rank, now)) return false;
    const double reported = 1e-3 * static_cast<double>(heartbeats_[rank].ms_since_move());
    const std::chrono::duration<double> since = now - state.beat_at;
    return reported + since.count() < options_.hang_seconds;
}

void Watchdog::check() {
    const Clock::time_point now = Clock::now();
    const std::chrono::duration<double> away = now - checked_at_;
    if (away.count() > silent_seconds_) restart(now);
    checked_at_ = now;
    count_file_moves();
    if (const std::int64_t own = heartbeats_.own().moves(); own != own_moves_) {
        own_moves_ = own;
        moved_at_ = now;
        for (RankState& state : states_)
            state.changes = 0;
    }
    const double still = seconds_without_move(now);
    heartbeats_.own().beat(static_cast<std::int64_t>(still * 1e3));
    for (int rank = 0; rank < heartbeats_.ranks(); ++rank) {
        RankState& state = states_[static_cast<std::size_t>(rank)];
        if (const std::int64_t beats = heartbeats_[rank].beats(); beats != state.beats)
            state = {beats, now, state.changes + 1};
    }
    if (HeartbeatFiles* files = shared_files_) {
        constexpr double time_to_read = 3;
        files->read_others(still > limit_seconds_ - silent_seconds_ - time_to_read);
    }
    if (still < limit_seconds_) return;
    for (int rank = 0; rank < heartbeats_.ranks(); ++rank)
        if (moves(rank, now)) return;
    end(views(now));
}

void Watchdog::count_file_moves() {
    if (!works_on_files(heartbeats_.own().record())) return;
    const HeartbeatFiles* files = shared_files_;
    const std::int64_t bytes = bytes_read_and_written() - (files == nullptr ? 0 : files->bytes());
    if (bytes - file_bytes_ >= file_work) progress_.record_move();
    file_bytes_ = bytes;
}

std::vector<RankView> Watchdog::views(Clock::time_point now) const {
    std::vector<RankView> ranks;
    for (int rank = 0; rank < heartbeats_.ranks(); ++rank)
        ranks.push_back({heartbeats_[rank].record(), alive(rank, now)});
    return ranks;
}

void Watchdog::end(const std::vector<RankView>& ranks) {
    const auto first_alive =
        std::find_if(ranks.begin(), ranks.end(), [](const RankView& rank) { return rank.alive; });
    const int own = heartbeats_.rank();
    const int reporter = static_cast<int>(first_alive - ranks.begin());
    NodeDuties& duties = heartbeats_.duties();
    std::int64_t nobody = 0;
    const Clock::time_point until = Clock::now() + report_timeout;
    if (reporter == own && duties.reporter.compare_exchange_strong(nobody, own + 1)) {
        // In a thread of its own, which may never return: a hanging thread may hold the log.
        std::promise<void> reported;
        std::future<void> done = reported.get_future();
        std::thread([this, &ranks, &reported] {
            report(ranks);
            reported.set_value();
        }).detach();
        done.wait_until(until);
        duties.reported = 1;
    }
    // A launcher kills all ranks when the first one exits.
    while (duties.reported == 0 && Clock::now() < until)
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
    std::_Exit(static_cast<int>(ExitCode::hang));
}

void Watchdog::report(const std::vector<RankView>& ranks) const {
    const int culprit = find_culprit(ranks, options_.mesh).rank;
    const RankRecord& record = ranks[static_cast<std::size_t>(culprit)].record;
    const bool here = record.host.view() == heartbeats_.own().record().host.view();
    const std::string sign = here ? process_sign(record.pid) : "";
    print("the run hangs; ranks are at:");
    for (const std::string& line : hang_table(ranks))
        print("  ", line);
    error_line(options_.program, hang_message(ranks, options_.mesh, sign, options_.hang_seconds));
}

}  // namespace gptrain
