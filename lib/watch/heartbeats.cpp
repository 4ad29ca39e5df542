#include "watch/heartbeats.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <fcntl.h>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

#include "base/error.h"
#include "base/temporary_file.h"

namespace gptrain {

std::int64_t node_clock_ms() {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
}

namespace {

constexpr std::size_t duties_bytes = 256;
static_assert(sizeof(NodeDuties) <= duties_bytes);

/// A new file of zeros with its space allocated, open for reading and writing; nothing if `folder`
/// has no room for it.
struct NewFile {
    std::unique_ptr<TemporaryFile> name;
    int descriptor = -1;
    std::string path() const { return name ? name->path().string() : ""; }
};

NewFile make_file(const std::filesystem::path& folder, std::size_t bytes) {
    NewFile file;
    file.name = std::make_unique<TemporaryFile>([&] {
        std::string path = (folder / "gptrain-XXXXXX").string();
        file.descriptor = ::mkostemp(path.data(), O_CLOEXEC);
        return path;
    });
    if (file.descriptor < 0) return {};
    // Allocate now: on a full file system a store to the mapping would raise a signal.
    if (::posix_fallocate(file.descriptor, 0, static_cast<off_t>(bytes)) == 0) return file;
    ::close(file.descriptor);
    return {};
}

NewFile make_file(std::size_t bytes) {
    NewFile file = make_file("/dev/shm", bytes);
    std::error_code error;
    const auto temporary = std::filesystem::temp_directory_path(error);
    if (!file.name && !error) return make_file(temporary, bytes);
    return file;
}

/// Null if it cannot be mapped. Closes the descriptor.
void* map_file(int descriptor, std::size_t bytes) {
    if (descriptor < 0) return nullptr;
    void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    ::close(descriptor);
    return memory == MAP_FAILED ? nullptr : memory;
}

void* map_private(std::size_t bytes) {
    void* memory =
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) fail_errno(errno, "mmap of ", bytes, " bytes");
    return memory;
}

}  // namespace

Heartbeats::Heartbeats(const MpiSession& session) : rank_(session.rank()) {
    // There are at most as many nodes as ranks.
    const auto node_bytes = static_cast<std::size_t>(session.size()) * sizeof(NodeSlot);
    bytes_ = duties_bytes + node_bytes +
             static_cast<std::size_t>(session.local_size()) * sizeof(RankSlot);
    const bool first = session.local_rank() == 0;
    NewFile file;
    if (first && session.local_size() > 1) file = make_file(bytes_);
    const std::string path =
        session.exchange(file.path())[static_cast<std::size_t>(session.node())];
    if (!first && !path.empty()) file.descriptor = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
    memory_ = map_file(file.descriptor, bytes_);
    find_nodes(session, memory_ != nullptr);
    file.name.reset();
    if (memory_ != nullptr && members_.size() == 1)
        ::munmap(std::exchange(memory_, nullptr), bytes_);
    if (memory_ == nullptr) memory_ = map_private(bytes_);
    auto* bytes = static_cast<std::byte*>(memory_);
    duties_ = reinterpret_cast<NodeDuties*>(bytes);
    node_slots_ = reinterpret_cast<NodeSlot*>(bytes + duties_bytes);
    slots_ = reinterpret_cast<RankSlot*>(bytes + duties_bytes + node_bytes);
}

Heartbeats::~Heartbeats() {
    ::munmap(memory_, bytes_);
}

/// A node shares its memory among all its ranks or not at all. Ranks of node 8 exchange "8" if they
/// have mapped it, "-8" if not.
void Heartbeats::find_nodes(const MpiSession& session, bool mapped) {
    const auto replies = session.exchange(text(mapped ? "" : "-", session.node()));
    const std::set<std::string> all(replies.begin(), replies.end());
    for (std::size_t rank = 0; rank < replies.size(); ++rank) {
        const bool shared = replies[rank].front() != '-' && all.count("-" + replies[rank]) == 0;
        node_of_.push_back(shared ? static_cast<int>(*parse_int(replies[rank]))
                                  : static_cast<int>(rank));
    }
    const std::set<int> nodes(node_of_.begin(), node_of_.end());
    nodes_.assign(nodes.begin(), nodes.end());
    for (int& node : node_of_)
        node =
            static_cast<int>(std::lower_bound(nodes_.begin(), nodes_.end(), node) - nodes_.begin());
    for (int rank = 0; rank < ranks(); ++rank)
        if (node_of(rank) == node()) members_.push_back(rank);
    own_index_ = static_cast<std::size_t>(
        std::lower_bound(members_.begin(), members_.end(), rank_) - members_.begin());
}

std::int64_t Heartbeats::moved_ms() const {
    std::int64_t last = 0;
    for (std::size_t index = 0; index < members_.size(); ++index)
        last = std::max(last, member(index).moved_ms());
    return last;
}

std::int64_t Heartbeats::limit_ms(std::int64_t now, std::int64_t silent) const {
    std::int64_t most = 0;
    for (std::size_t index = 0; index < members_.size(); ++index)
        if (member(index).is_alive(now, silent)) most = std::max(most, member(index).limit_ms());
    return most;
}

}  // namespace gptrain
