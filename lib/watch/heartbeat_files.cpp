#include "watch/heartbeat_files.h"

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <set>
#include <span>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"

namespace gptrain {
namespace {

constexpr std::chrono::milliseconds period{1000};

/// One rank's entry in a file.
struct Entry {
    std::int64_t launch = 0;
    std::int64_t rank = 0;
    Heartbeat heartbeat;
};
static_assert(std::is_trivially_copyable_v<Entry>);

/// From a clock shared by all processes of a node.
std::int64_t now_ms() {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
}

/// True if this rank is the first to call in this period.
bool claims(std::atomic<std::int64_t>& last_ms) {
    const std::int64_t now = now_ms();
    std::int64_t last = last_ms.load();
    return now - last >= period.count() && last_ms.compare_exchange_strong(last, now);
}

}  // namespace

HeartbeatFiles::HeartbeatFiles(Heartbeats& heartbeats, const std::filesystem::path& folder,
                               const MpiSession& session)
    : heartbeats_(heartbeats), folder_(folder) {
    session.run_on_first([&] { create_folders(folder_); });
    const auto started = std::chrono::system_clock::now().time_since_epoch().count();
    launch_ = *parse_int(session.broadcast(text(started)));
    thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

HeartbeatFiles::~HeartbeatFiles() {
    thread_.request_stop();
    thread_.join();
    if (heartbeats_.rank() == heartbeats_.node()) ::unlink(file_of(heartbeats_.node()).c_str());
}

std::filesystem::path HeartbeatFiles::file_of(int node) const {
    return folder_ / text("node-", node);
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
        changed.wait_for(lock, stop, period / 4, [] { return false; });
    }
}

void HeartbeatFiles::exchange() {
    if (claims(heartbeats_.duties().files_written_ms)) write();
    if (!read_others_ || !claims(heartbeats_.duties().files_read_ms)) return;
    std::set<int> others;
    for (int rank = 0; rank < heartbeats_.ranks(); ++rank)
        others.insert(heartbeats_.node_of(rank));
    others.erase(heartbeats_.node());
    for (const int node : others)
        read(node);
}

void HeartbeatFiles::write() {
    std::vector<Entry> entries;
    for (int rank = 0; rank < heartbeats_.ranks(); ++rank) {
        if (heartbeats_.node_of(rank) == heartbeats_.node())
            entries.push_back({launch_, rank, heartbeats_[rank].heartbeat()});
    }
    File file(file_of(heartbeats_.node()), File::Mode::update);
    file.write_at(0, std::as_bytes(std::span(entries)));
    file.close();
    bytes_ += std::ssize(entries) * std::int64_t{sizeof(Entry)};
}

/// Opens the file again each time, because network file systems refresh on open.
void HeartbeatFiles::read(int node) {
    std::error_code error;
    if (!std::filesystem::exists(file_of(node), error)) return;
    File file(file_of(node), File::Mode::read);
    Entry entry;
    while (file.read(std::as_writable_bytes(std::span(&entry, 1))) == sizeof entry) {
        bytes_ += sizeof entry;
        const bool mine = entry.launch == launch_ && entry.rank >= 0 &&
                          entry.rank < heartbeats_.ranks() &&
                          heartbeats_.node_of(static_cast<int>(entry.rank)) == node;
        if (mine) heartbeats_[static_cast<int>(entry.rank)].set(entry.heartbeat);
    }
}

}  // namespace gptrain
