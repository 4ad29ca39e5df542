// The files through which nodes exchange their state, on the shared file system. Each node has one,
// node-N for its lowest rank N: its news, and then an entry for each of its ranks.
//
// Network file systems refresh a file when it is opened, so a file is opened for each read. All
// files exist from the start on: a new name may be slow to appear.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "watch/node_watch.h"
#include "watch/rank_record.h"
#include "watch/read_files.h"

namespace gptrain {

/// A rank's entry.
struct RankEntry {
    std::int64_t rank = 0;
    std::int64_t ms_since_beat = 0;  ///< of its watchdog
    RankRecord record;
};

class NodeFiles {
public:
    /// `launch` is the same on all ranks and differs from earlier launches, whose files are
    /// ignored. `nodes`: the lowest rank of each.
    NodeFiles(const std::filesystem::path& folder, std::int64_t launch,
              const std::vector<int>& nodes)
        : folder_(folder), launch_(launch), nodes_(nodes) {}

    void write(NodeNews news, std::span<const RankEntry> ranks);
    /// The news of those of these nodes that have any.
    std::vector<NodeNews> read_news(std::span<const int> nodes);
    /// The entries of all ranks of these nodes, as far as they can be read in this time.
    std::vector<RankEntry> read_ranks(std::span<const int> nodes, int most_ranks_per_node,
                                      std::chrono::milliseconds longest);
    void remove(int node) const;
    /// Bytes read and written so far.
    std::int64_t bytes() const { return bytes_; }

private:
    std::vector<std::vector<std::byte>> read(std::span<const int> nodes, std::size_t most,
                                             const ReadLimits& limits);
    std::filesystem::path file_of(int node) const;

    std::filesystem::path folder_;
    std::int64_t launch_;
    std::vector<int> nodes_;
    std::atomic<std::int64_t> bytes_ = 0;
};

}  // namespace gptrain
