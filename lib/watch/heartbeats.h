// The records of all ranks, in memory that the ranks of a node share. It lies outside of their
// processes: what a stopped or killed rank did last can be read by its neighbours.
//
// Each rank has a slot. Its training thread publishes its record and counts its moves (plain
// stores, less than 100 ns); its watchdog's thread counts beats, which go on while the rank waits
// or computes and end when its process does or is stopped. The slots of ranks on other nodes are
// filled by HeartbeatFiles.
//
// The memory is a file mapped by all ranks of the node, made in /dev/shm (else in the folder for
// temporary files) and removed as soon as all have it open, so that no run leaves one behind. Where
// ranks of a node cannot share a file (containers of their own), each of them counts as a node.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "comm/mpi_session.h"
#include "watch/rank_record.h"

namespace gptrain {

/// What a slot says, as plain data.
struct Heartbeat {
    RankRecord record;
    std::int64_t beats = 0;     ///< 0: the rank's watchdog has not begun
    std::int64_t still_ms = 0;  ///< at the last beat: time since the rank last moved
};

/// One rank's place in shared memory; one that is all zeros has never beaten. The record is a
/// sequence lock over words: one thread writes, others read a whole record, or, of a process
/// stopped in the midst of writing, the words as they are.
class RankSlot {
public:
    void publish(const RankRecord& record);
    RankRecord record() const;
    /// By any thread of the rank.
    void move() { moves_.fetch_add(1, std::memory_order_relaxed); }
    std::int64_t moves() const { return moves_.load(std::memory_order_relaxed); }
    void beat(std::int64_t still_ms) {
        still_ms_.store(still_ms, std::memory_order_relaxed);
        beats_.fetch_add(1, std::memory_order_release);
    }
    std::int64_t beats() const { return beats_.load(std::memory_order_acquire); }
    std::int64_t still_ms() const { return still_ms_.load(std::memory_order_relaxed); }

    Heartbeat heartbeat() const { return {record(), beats(), still_ms()}; }
    /// Takes over what a rank of another node has said.
    void set(const Heartbeat& heartbeat);

private:
    using Word = std::atomic<std::uint64_t>;
    static_assert(Word::is_always_lock_free && sizeof(RankRecord) % sizeof(Word) == 0);
    std::atomic<std::uint64_t> version_;  ///< odd while the record is written
    std::array<Word, sizeof(RankRecord) / sizeof(Word)> words_;
    std::atomic<std::int64_t> moves_;
    std::atomic<std::int64_t> beats_;
    std::atomic<std::int64_t> still_ms_;
};

/// What the ranks of a node settle among each other; all zeros at first.
struct NodeDuties {
    std::atomic<std::int64_t> files_written_ms;  ///< when one last wrote the node's file
    std::atomic<std::int64_t> files_read_ms;     ///< when one last read the others' files
    std::atomic<std::int64_t> speaker;           ///< rank + 1 of the one that reports a hang
    std::atomic<std::int64_t> spoken;            ///< 1 after it has
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
    /// The node of a rank, named by its lowest rank.
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
