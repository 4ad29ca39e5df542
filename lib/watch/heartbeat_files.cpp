#include "watch/heartbeat_files.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <span>

#include "base/file.h"
#include "base/log.h"

namespace gptrain {
namespace {

constexpr std::int64_t period = 1000;
/// How often a rank checks for work.
constexpr std::int64_t look_period = period / 4;

/// True if this rank is the first to call in this period, which begins again at `last`.
bool claims(std::atomic<std::int64_t>& last, std::int64_t now, std::int64_t until_next) {
    std::int64_t seen = last.load();
    return now - seen >= until_next && last.compare_exchange_strong(seen, now);
}

/// A number that is the same on all ranks and differs from that of earlier launches.
std::int64_t number_of_launch(const MpiSession& session) {
    const auto now = std::chrono::system_clock::now().time_since_epoch().count();
    return *parse_int(session.broadcast(text(now)));
}

}  // namespace

HeartbeatFiles::HeartbeatFiles(Heartbeats& heartbeats, const WatchTimes& longest,
                               const std::filesystem::path& folder, const MpiSession& session)
    : heartbeats_(heartbeats),
      longest_(longest),
      files_(folder, number_of_launch(session), heartbeats.nodes()),
      watch_(heartbeats.duties().findings, heartbeats.node_slots(), heartbeats.node(), longest) {
    session.run_on_first([&] { create_folders(folder); });
    thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

HeartbeatFiles::~HeartbeatFiles() {
    thread_.request_stop();
    thread_.join();
    // Until then another one may write it again.
    const bool last = ++heartbeats_.duties().left == std::ssize(heartbeats_.members());
    if (last) files_.remove(heartbeats_.node());
}

void HeartbeatFiles::run(const std::stop_token& stop) {
    std::mutex mutex;
    std::condition_variable_any changed;
    std::unique_lock lock(mutex);
    while (!stop.stop_requested()) {
        try {
            exchange();
        } catch (const Error& error) {
            if (!std::exchange(warned_, true))
                warn("heartbeats between nodes: ", error.what(),
                     "; the hang report may not name lost ranks");
        }
        changed.wait_for(lock, stop, std::chrono::milliseconds(look_period), [] { return false; });
    }
}

std::int64_t HeartbeatFiles::near_period() const {
    return watch_.times().silent < longest_.silent ? period / 2 : period;
}

void HeartbeatFiles::exchange() {
    NodeDuties& duties = heartbeats_.duties();
    const std::int64_t now = node_clock_ms();
    const std::int64_t moved = heartbeats_.moved_ms();
    const bool hangs = watch_.hang() != NodeWatch::no_hang;
    // The others wait for the news that nothing has moved here for too long.
    const WatchTimes times = watch_.times();
    const std::int64_t too_long = moved + times.hang;
    const bool urgent = hangs || (now >= too_long && duties.files_written_ms < too_long);
    const bool near = watch_.should_read(now, moved);
    if (claims(duties.files_written_ms, now, urgent ? look_period : near ? near_period() : period))
        write();
    if (!near) return;
    if (claims(duties.files_read_ms, now, near_period())) {
        // Until this is over no other rank reads, unless this one is stopped meanwhile.
        duties.files_read_ms = now + times.silent / 2;
        read();
        duties.files_read_ms = now;
    }
    if (hangs) return;
    watch_.judge(node_clock_ms(), heartbeats_.moved_ms());
    if (watch_.hang() != NodeWatch::no_hang) write();
}

void HeartbeatFiles::read() {
    constexpr std::size_t at_once = 256;
    const std::vector<int> wanted = watch_.begin_pass(node_clock_ms());
    for (std::size_t begin = 0; begin < wanted.size(); begin += at_once) {
        const auto some =
            std::span(wanted).subspan(begin, std::min(at_once, wanted.size() - begin));
        for (const NodeNews& news : files_.read_news(some)) {
            watch_.take(news, node_clock_ms());
            if (news.reported != 0) heartbeats_.duties().reported = 1;
        }
    }
    watch_.end_pass(node_clock_ms());
}

void HeartbeatFiles::write() {
    const std::int64_t now = node_clock_ms();
    std::vector<RankEntry> entries;
    for (std::size_t i = 0; i < heartbeats_.members().size(); ++i) {
        const RankSlot& slot = heartbeats_.member(i);
        entries.push_back({heartbeats_.members()[i], now - slot.beat_ms(), slot.record()});
    }
    NodeNews news = watch_.news(now, heartbeats_.moved_ms());
    news.reported = heartbeats_.duties().reported;
    files_.write(news, entries);
}

void HeartbeatFiles::announce() {
    try {
        write();
    } catch (const Error&) {
        // Then they leave a little later.
    }
}

void HeartbeatFiles::add_others(std::vector<RankView>& ranks, std::chrono::milliseconds longest) {
    const std::int64_t now = node_clock_ms();
    std::vector<int> others;
    std::vector<int> ranks_on(heartbeats_.nodes().size());
    for (int rank = 0; rank < heartbeats_.ranks(); ++rank) {
        const int node = heartbeats_.node_of(rank);
        if (node == heartbeats_.node()) continue;
        if (ranks_on[static_cast<std::size_t>(node)]++ == 0) others.push_back(node);
        // Unless its file shows more: it is not to blame for being alive.
        RankView& view = ranks[static_cast<std::size_t>(rank)];
        view.record.phase = ShortText<16>("unknown");
        view.record.waiting = 1;
        view.alive = watch_.is_alive(node, now);
    }
    const int most = *std::max_element(ranks_on.begin(), ranks_on.end());
    for (const RankEntry& entry : files_.read_ranks(others, most, longest)) {
        if (entry.rank < 0 || entry.rank >= heartbeats_.ranks()) continue;
        const int node = heartbeats_.node_of(static_cast<int>(entry.rank));
        if (node == heartbeats_.node()) continue;
        // Its node wrote this up to a period ago.
        const bool beats = entry.ms_since_beat + near_period() < watch_.times().silent;
        ranks[static_cast<std::size_t>(entry.rank)] = {entry.record,
                                                       beats && watch_.is_alive(node, now)};
    }
}

}  // namespace gptrain
