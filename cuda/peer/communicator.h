// Communication between the GPUs of a machine by copies into each other's memory.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/mesh.h"
#include "cuda/peer/links.h"
#include "cuda/progress/device_operations.h"

namespace gptrain::cuda {

class PeerCommunicator;

/// The peer communicators of a rank, which end together.
class PeerCommunicators {
public:
    /// True if there is one that has not been aborted by this rank.
    bool connected() const { return !all_.empty() && !aborted_; }
    /// Lets the streams of all run on, whatever they wait for. Later operations are Errors, on all
    /// ranks. Any thread may call it while no communicator is made or destroyed.
    void release() noexcept;
    /// Releases until the streams are done, 4 seconds at most.
    void abort() noexcept;
    /// Throws if a rank has aborted. For a host that waits for the device.
    void poll() const;

private:
    friend class PeerCommunicator;
    std::vector<PeerCommunicator*> all_;  ///< that exist
    bool aborted_ = false;
};

/// Operations run on two streams, one that pushes and one that takes. Each starts after all
/// computation issued before it; computation issued after its `wait` runs after it; the host waits
/// for neither. Tensors are in memory of the device that was current at construction.
///
/// Sums are those of the MPI communicator, bit for bit: in rank order, 16-bit floats in fp32
/// (comm/byte_runs.h). No kernel runs but those of sums and of all_to_all_rows, so no other message
/// holds a multiprocessor.
///
/// A rank's operations run one after the other: do not issue a `recv` before a `send` that its
/// sender waits for; rings and neighbours use send_recv.
///
/// Lost ranks are found by whoever watches the hosts. After `abort` on any rank, the next call of
/// each rank's communicator or of a `wait` is an Error (hang).
class PeerCommunicator final : public Communicator {
public:
    /// `siblings` are this rank's communicators so far. `host` connects the same ranks, which are
    /// on one machine, through host memory. Computation is issued to `compute`, which outlives the
    /// communicator. `name` is the same on all ranks of the group, and no other group of the
    /// machine has it. `operations`, if given, is notified of the device's progress. All ranks
    /// construct it together; if that fails on one, all throw its Error (usage).
    PeerCommunicator(std::shared_ptr<PeerCommunicators> siblings,
                     std::unique_ptr<Communicator> host, const Stream& compute,
                     const RankGroup& group, const std::string& name,
                     std::shared_ptr<DeviceOperations> operations = nullptr);
    /// Aborts all siblings if an exception is in flight; otherwise waits for its operations and the
    /// other ranks.
    ~PeerCommunicator() override;

    int rank() const override { return host_->rank(); }
    int size() const override { return host_->size(); }
    Pending all_reduce(const Tensor& x, Reduce reduce) override;
    Pending reduce_scatter(const Tensor& to, const Tensor& from, int dim) override;
    Pending all_gather(const Tensor& to, const Tensor& from, int dim) override;
    Pending all_to_all(const Tensor& to, const Tensor& from) override;
    /// Sends the rows that have a slot, and no others: a kernel reads the slots (send_rows).
    Pending all_to_all_rows(const Tensor& to, const Tensor& from, const Tensor& slots) override;
    Pending broadcast(const Tensor& x, int root) override;
    Pending send(const Tensor& x, int to) override;
    Pending recv(const Tensor& x, int from) override;
    Pending send_recv(const Tensor& sent, int to, const Tensor& received, int from) override;
    /// A barrier among the hosts; it does not wait for the devices.
    void barrier() override { host_->barrier(); }

private:
    friend class PeerCommunicators;
    void poll() const;
    Pending issue(bool Traffic::*kind, std::string_view call, const auto& issue);
    std::shared_ptr<Event> free_event();
    /// The ranks after this one, in order: not all push to the same one at first.
    std::vector<int> others() const;
    /// The pieces of a part, for or from another rank.
    struct Part {
        std::vector<ByteRuns> pieces;
        int rank = 0;
        const std::int32_t* slots = nullptr;  ///< of its rows, if not all of them are sent
    };
    /// Piece `index` of each part that has so many.
    void push(const std::vector<Part>& parts, std::size_t index);
    void take(const std::vector<Part>& parts, std::size_t index);
    /// All pieces of these parts, out and in in turn.
    void exchange(const std::vector<Part>& out, const std::vector<Part>& in);
    /// The parts of all others.
    std::vector<Part> parts_of_others(const std::function<ByteRuns(int rank)>& part) const;
    /// Sums the parts that all ranks push to this one, piece by piece, into `to`. part(r) is what
    /// this rank pushes to rank r.
    void sum_parts(const ByteRuns& to, const std::function<ByteRuns(int rank)>& part, DType dtype,
                   Reduce reduce);
    /// Pushes `own` to all others, and takes theirs to part(r).
    void spread(const ByteRuns& own, const std::function<ByteRuns(int rank)>& part);

    const std::shared_ptr<PeerCommunicators> siblings_;
    std::unique_ptr<Communicator> host_;
    const Stream& compute_;
    const std::string name_;
    const Traffic traffic_;
    const std::shared_ptr<DeviceOperations> operations_;
    PeerLinks links_;
    Stream out_{Stream::Priority::urgent};
    Stream in_{Stream::Priority::urgent};
    std::deque<std::shared_ptr<Event>> events_;  ///< the one used longest ago first
};

}  // namespace gptrain::cuda
