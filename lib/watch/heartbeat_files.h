// Connects the nodes of a run through files on the shared file system (node_files.h), so that they
// find a hang together (node_watch.h).
//
// About once a second the first rank of a node to get there writes its file, so any running rank
// reports for the stopped ones of its node. Files of other nodes are read only when a hang is near,
// again by one rank per node. A blocked file system blocks only this thread and those that read;
// nodes then look lost to each other.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <thread>
#include <vector>

#include "comm/mpi_session.h"
#include "watch/heartbeats.h"
#include "watch/node_files.h"
#include "watch/node_watch.h"

namespace gptrain {

class HeartbeatFiles {
public:
    /// All ranks call it together; rank 0 creates the folder. `heartbeats` must outlive it.
    HeartbeatFiles(Heartbeats& heartbeats, const WatchTimes& longest,
                   const std::filesystem::path& folder, const MpiSession& session);
    /// Removes the node's file.
    ~HeartbeatFiles();

    const NodeWatch& watch() const { return watch_; }
    NodeWatch& watch() { return watch_; }
    /// Sets the views of ranks on other nodes, for a report. Reads all files, as far as that can be
    /// done in this time.
    void add_others(std::vector<RankView>& ranks, std::chrono::milliseconds longest);
    /// Lets the other nodes know that the hang has been reported, so that they leave.
    void announce();
    /// Bytes read and written so far.
    std::int64_t bytes() const { return files_.bytes(); }

private:
    void run(const std::stop_token& stop);
    /// Writes, and if wanted reads, whatever no other rank of the node has done in this period.
    void exchange();
    /// How often news are written and read when a hang is near; more often if its limit is learned.
    std::int64_t near_period() const;
    void read();
    void write();

    Heartbeats& heartbeats_;
    WatchTimes longest_;
    NodeFiles files_;
    NodeWatch watch_;
    bool warned_ = false;
    std::jthread thread_;  // last: it uses all members above
};

}  // namespace gptrain
