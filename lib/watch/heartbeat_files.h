// Heartbeats between nodes, through files on the file system that they share anyway.
//
// Each node has a file, node-N for its lowest rank N, with the heartbeats of its ranks; about once
// a second whichever of its ranks comes by first writes it anew, so that any rank that can run
// speaks for the stopped ones of its node. The files of other nodes are read only while a hang is
// near, again by one rank of a node for all. A file system that stands still itself stops this
// thread and no other; nodes then look lost to each other.
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
    /// All ranks call it together; rank 0 makes the folder. `heartbeats` outlives it.
    HeartbeatFiles(Heartbeats& heartbeats, const std::filesystem::path& folder,
                   const MpiSession& session);
    /// Removes the node's file.
    ~HeartbeatFiles();

    /// Whether the heartbeats of other nodes are to be read from now on.
    void want_others(bool wanted) { wanted_ = wanted; }
    /// That it has read and written so far.
    std::int64_t bytes() const { return bytes_; }

private:
    void run(const std::stop_token& stop);
    std::filesystem::path file_of(int node) const;
    void write();
    void read(int node);
    /// Writes, and reads where that is wanted, what no other rank of the node does.
    void carry();

    Heartbeats& heartbeats_;
    std::filesystem::path folder_;
    std::int64_t launch_ = 0;  ///< tells this start of the run from others that have left files
    std::atomic<bool> wanted_ = false;
    std::atomic<std::int64_t> bytes_ = 0;
    bool warned_ = false;
    std::jthread thread_;  // last: it uses all of the above
};

}  // namespace gptrain
