// The records of the ranks of a node, in memory that they share. The memory is outside the
// processes, so neighbours can read what a stopped or killed rank did last.
//
// Each rank has a slot. Its training thread publishes its record and counts its moves (plain
// stores, less than 100 ns). Its watchdog thread beats, which continues while the rank waits or
// computes and ends when its process ends or is stopped.
//
// The memory is a file mapped by all ranks of the node. It is created in /dev/shm (or else in the
// folder for temporary files) and removed once all ranks have opened it, so no run leaves one
// behind. If ranks of a node cannot share a file (each in its own container), each counts as a
// node.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "comm/mpi_session.h"
#include "watch/node_watch.h"
#include "watch/rank_record.h"
#include "watch/shared_value.h"

namespace gptrain {

/// Milliseconds on a clock that all processes of a node share.
std::int64_t node_clock_ms();

/// One rank's slot in shared memory; all zeros before the first beat.
class RankSlot {
public:
    /// Called by the training thread.
    void publish(const RankRecord& record) { record_.write(record); }
    /// Called by the thread that watches the rank's device.
    void publish_device(const DeviceRecord& record) { device_.write(record); }
    RankRecord record() const { return with_device(record_.read(), device_.read()); }
    /// Can be called by any thread of the rank.
    void move() { moves_.fetch_add(1, std::memory_order_relaxed); }
    std::int64_t moves() const { return moves_.load(std::memory_order_relaxed); }
    /// The rank's watchdog runs at `now`; the rank last moved at `moved` (node_clock_ms). As far as
    /// this rank knows, nothing on its node may move for `limit`.
    void beat(std::int64_t now, std::int64_t moved, std::int64_t limit) {
        moved_ms_.store(moved, std::memory_order_relaxed);
        limit_ms_.store(limit, std::memory_order_relaxed);
        beat_ms_.store(now, std::memory_order_relaxed);
    }
    std::int64_t beat_ms() const { return beat_ms_.load(std::memory_order_relaxed); }
    std::int64_t moved_ms() const { return moved_ms_.load(std::memory_order_relaxed); }
    std::int64_t limit_ms() const { return limit_ms_.load(std::memory_order_relaxed); }
    /// True if the watchdog has run in the last `silent` ms.
    bool is_alive(std::int64_t now, std::int64_t silent) const { return now - beat_ms() < silent; }

private:
    SharedValue<RankRecord> record_;
    SharedValue<DeviceRecord> device_;
    std::atomic<std::int64_t> moves_;
    std::atomic<std::int64_t> beat_ms_;
    std::atomic<std::int64_t> moved_ms_;
    std::atomic<std::int64_t> limit_ms_;
};

/// How the ranks of a node share their duties; all zeros at first.
struct NodeDuties {
    std::atomic<std::int64_t> files_written_ms;  ///< when a rank last wrote the node's file
    std::atomic<std::int64_t> files_read_ms;     ///< when a rank last read other nodes' files
    std::atomic<std::int64_t> reporter;          ///< 1 + the rank that reports a hang
    std::atomic<std::int64_t> reported;          ///< 1 once it has reported
    std::atomic<std::int64_t> left;              ///< ranks that no longer write the node's file
    NodeFindings findings;                       ///< about other nodes
};

class Heartbeats {
public:
    /// All ranks call it.
    explicit Heartbeats(const MpiSession& session);
    Heartbeats(const Heartbeats&) = delete;
    Heartbeats& operator=(const Heartbeats&) = delete;
    ~Heartbeats();

    int rank() const { return rank_; }
    int ranks() const { return static_cast<int>(node_of_.size()); }
    RankSlot& own() const { return slots_[own_index_]; }
    /// The ranks of this node, ascending, and the slot of the one at an index.
    const std::vector<int>& members() const { return members_; }
    RankSlot& member(std::size_t index) const { return slots_[index]; }
    /// When a rank of this node last moved.
    std::int64_t moved_ms() const;
    /// How long nothing on this node may move: what the most patient rank says that has beaten in
    /// the last `silent` ms.
    std::int64_t limit_ms(std::int64_t now, std::int64_t silent) const;
    NodeDuties& duties() const { return *duties_; }

    /// The lowest ranks of all nodes, ascending. Nodes are known by their index in this list.
    const std::vector<int>& nodes() const { return nodes_; }
    int node_of(int rank) const { return node_of_[static_cast<std::size_t>(rank)]; }
    int node() const { return node_of(rank_); }
    bool several_nodes() const { return nodes().size() > 1; }
    /// This node's view of each node, which its ranks share.
    std::span<NodeSlot> node_slots() const { return {node_slots_, nodes().size()}; }

private:
    void find_nodes(const MpiSession& session, bool mapped);

    int rank_ = 0;
    std::vector<int> node_of_;
    std::vector<int> nodes_;
    std::vector<int> members_;
    std::size_t own_index_ = 0;
    std::size_t bytes_ = 0;
    void* memory_ = nullptr;
    NodeDuties* duties_ = nullptr;
    NodeSlot* node_slots_ = nullptr;
    RankSlot* slots_ = nullptr;
};

}  // namespace gptrain
