// The records of all ranks, in memory shared by the ranks of a node. The memory is outside the
// processes, so neighbours can read what a stopped or killed rank did last.
//
// Each rank has a slot. Its training thread publishes its record and counts its moves (plain
// stores, less than 100 ns). Its watchdog thread counts beats, which continue while the rank waits
// or computes and end when its process ends or is stopped. HeartbeatFiles fills the slots of ranks
// on other nodes.
//
// The memory is a file mapped by all ranks of the node. It is created in /dev/shm (or else in the
// folder for temporary files) and removed once all ranks have opened it, so no run leaves one
// behind. If ranks of a node cannot share a file (each in its own container), each counts as a
// node.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "comm/mpi_session.h"
#include "watch/rank_record.h"

namespace gptrain {

/// The content of a slot as plain data.
struct Heartbeat {
    RankRecord record;
    std::int64_t beats = 0;          ///< 0: the rank's watchdog has not started
    std::int64_t ms_since_move = 0;  ///< time since the rank last moved, at the last beat
};

/// One rank's slot in shared memory; all zeros before the first beat. The record is a seqlock over
/// words: one thread writes, and others read a whole record. If the writer was stopped in the
/// middle, they read the words as they are.
class RankSlot {
public:
    void publish(const RankRecord& record);
    RankRecord record() const;
    /// Can be called by any thread of the rank.
    void move() { moves_.fetch_add(1, std::memory_order_relaxed); }
    std::int64_t moves() const { return moves_.load(std::memory_order_relaxed); }
    void beat(std::int64_t ms_since_move) {
        ms_since_move_.store(ms_since_move, std::memory_order_relaxed);
        beats_.fetch_add(1, std::memory_order_release);
    }
    std::int64_t beats() const { return beats_.load(std::memory_order_acquire); }
    std::int64_t ms_since_move() const { return ms_since_move_.load(std::memory_order_relaxed); }

    Heartbeat heartbeat() const { return {record(), beats(), ms_since_move()}; }
    /// Takes over the heartbeat of a rank on another node.
    void set(const Heartbeat& heartbeat);

private:
    using Word = std::atomic<std::uint64_t>;
    static_assert(Word::is_always_lock_free && sizeof(RankRecord) % sizeof(Word) == 0);
    std::atomic<std::uint64_t> version_;  ///< odd while the record is being written
    std::array<Word, sizeof(RankRecord) / sizeof(Word)> words_;
    std::atomic<std::int64_t> moves_;
    std::atomic<std::int64_t> beats_;
    std::atomic<std::int64_t> ms_since_move_;
};

/// How the ranks of a node share their duties; all zeros at first.
struct NodeDuties {
    std::atomic<std::int64_t> files_written_ms;  ///< when a rank last wrote the node's file
    std::atomic<std::int64_t> files_read_ms;     ///< when a rank last read the other nodes' files
    std::atomic<std::int64_t> reporter;          ///< 1 + the rank that reports a hang
    std::atomic<std::int64_t> reported;          ///< 1 once it has reported
};

class Heartbeats {
public:
    /// All ranks call it.
    explicit Heartbeats(const MpiSession& session);
    Heartbeats(const Heartbeats&) = delete;
    Heartbeats& operator=(const Heartbeats&) = delete;
    ~Heartbeats();

    int rank() const { return rank_; }
    int ranks() const { return static_cast<int>(nodes_.size()); }
    RankSlot& operator[](int rank) const { return slots_[rank]; }
    RankSlot& own() const { return slots_[rank_]; }
    NodeDuties& duties() const { return *duties_; }
    /// The node of a rank, identified by its lowest rank.
    int node_of(int rank) const { return nodes_[static_cast<std::size_t>(rank)]; }
    int node() const { return node_of(rank_); }
    bool several_nodes() const;

private:
    void find_nodes(const MpiSession& session, bool mapped);
    bool shares_memory() const;

    int rank_ = 0;
    std::vector<int> nodes_;
    std::size_t bytes_ = 0;
    void* memory_ = nullptr;
    NodeDuties* duties_ = nullptr;
    RankSlot* slots_ = nullptr;
};

}  // namespace gptrain
