// Heartbeats between nodes, through files on the shared file system.
//
// Each node has one file, node-N for its lowest rank N, with the heartbeats of its ranks. About
// once a second the first rank to get there rewrites it, so any running rank reports for the
// stopped ones of its node. The files of other nodes are read only when a hang is near, again by
// one rank per node. A blocked file system blocks only this thread; nodes then look lost to each
// other.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "comm/mpi_session.h"
#include "watch/heartbeats.h"

namespace gptrain {

class HeartbeatFiles {
public:
    /// All ranks call it together; rank 0 creates the folder. `heartbeats` must outlive it.
    HeartbeatFiles(Heartbeats& heartbeats, const std::filesystem::path& folder,
                   const MpiSession& session);
    /// Removes the node's file.
    ~HeartbeatFiles();

    /// Whether to read the heartbeats of other nodes from now on.
    void read_others(bool on) { read_others_ = on; }
    /// Bytes read and written so far.
    std::int64_t bytes() const { return bytes_; }

private:
    void run(const std::stop_token& stop);
    std::filesystem::path file_of(int node) const;
    void write();
    void read(int node);
    /// Writes, and if wanted reads, whatever no other rank of the node has done in this period.
    void exchange();

    Heartbeats& heartbeats_;
    std::filesystem::path folder_;
    std::int64_t launch_ = 0;  ///< distinguishes this launch from earlier ones that left files
    std::atomic<bool> read_others_ = false;
    std::atomic<std::int64_t> bytes_ = 0;
    bool warned_ = false;
    std::jthread thread_;  // last: it uses all members above
};

}  // namespace gptrain
