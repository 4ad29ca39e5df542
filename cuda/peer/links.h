// How data travels between the GPUs of a machine without NCCL: a rank copies pieces of a message
// into the mailbox of another rank, which takes them out in the same order. Copy engines move them,
// and streams wait for flags, so no multiprocessor is held while data move or ranks wait. Only
// pieces of which some rows stay behind are moved by a kernel, which knows the rows.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "comm/byte_runs.h"
#include "comm/communicator.h"
#include "comm/peer_limits.h"
#include "cuda/runtime/peer_memory.h"
#include "cuda/runtime/runtime.h"

namespace gptrain::cuda {

/// Runs cut into pieces of at most piece_bytes, in order. They depend only on number and size of
/// the runs, so both ends of a message cut alike.
std::vector<ByteRuns> pieces_of(const ByteRuns& runs);

/// to = from: equal numbers of equal runs, on the device.
void copy_piece(const ByteRuns& to, const ByteRuns& from, const Stream& stream);

/// The links of one rank with all others of a communicator. The n-th piece that a rank pushes to
/// another one is the n-th that the other takes from it.
class PeerLinks {
public:
    /// All ranks construct it together; `host` connects them and outlives it. They are on one
    /// machine. `name` is the same on all of them, and no other links of the machine have it. If
    /// that fails on one rank, all throw its Error (usage).
    PeerLinks(Communicator& host, const std::string& name);
    /// Waits until all ranks have come to it, unless an exception is in flight.
    ~PeerLinks();
    PeerLinks(const PeerLinks&) = delete;
    PeerLinks& operator=(const PeerLinks&) = delete;

    /// A piece for another rank.
    struct Outgoing {
        ByteRuns piece;
        int to = 0;
        /// One for each run: runs with a negative one are not copied. Null: all are.
        const std::int32_t* slots = nullptr;
    };
    /// Once the stream's work is done and all mailboxes have room, copies the pieces.
    void push(std::span<const Outgoing> pieces, const Stream& stream);
    /// Later work of the stream runs when the next piece from each of these ranks is there. Returns
    /// where they lie, laid out like `like` but without gaps.
    std::vector<ByteRuns> arrived(std::span<const ByteRuns> like, std::span<const int> from,
                                  const Stream& stream);
    /// The pieces have been used by the work issued to the stream: their places are free.
    void taken(std::span<const int> from, const Stream& stream);

    /// Lets all streams of this rank run on, whatever they wait for: the other ranks may be gone.
    /// Makes `aborted` true on all ranks. Data are then undefined. Any thread may call it, and
    /// repeats it until the streams are done: ranks that still run may overwrite what it sets.
    void release() noexcept;
    bool aborted() const;

private:
    struct Link {
        std::optional<OpenedMemory> mailbox;   ///< of the other rank
        std::atomic<std::int64_t> pushed = 0;  ///< pieces, in the order of issue
        std::atomic<std::int64_t> taken = 0;
    };
    /// The flags of the way from one rank to another: pieces there, and pieces taken.
    std::int64_t arrived_flag(int from, int to) const { return 2 * (from * size_ + to); }
    std::int64_t taken_flag(int from, int to) const { return arrived_flag(from, to) + 1; }
    std::int64_t aborted_flag() const { return 2 * std::int64_t{size_} * size_; }
    /// Where the n-th piece of a sender lies in a mailbox.
    std::byte* place(std::byte* mailbox, int owner, int sender, std::int64_t number) const;

    Communicator& host_;
    int rank_;
    int size_;
    std::optional<PeerMemory> own_;
    std::unique_ptr<PeerFlags> flags_;
    std::vector<Link> links_;  ///< by rank
};

}  // namespace gptrain::cuda
