#include "comm/mpi_communicator.h"

#include <bit>
#include <exception>
#include <functional>
#include <vector>

#include "base/at.h"
#include "base/text.h"
#include "comm/byte_runs.h"
#include "comm/host_memory.h"
#include "comm/mpi_state.h"

namespace gptrain {
namespace {

/// Tag of messages between two ranks, which arrive in the order sent.
constexpr int message_tag = 0;
/// Each collective has its own tag, so that those in progress are not confused. MPI guarantees tags
/// up to 32767.
constexpr int collective_tags = 32767;

/// Posts messages: sends `own` to every rank and receives part(r) from every rank r.
void spread(MpiOperation& operation, const ByteRuns& own,
            const std::function<ByteRuns(int rank)>& part, int rank, int size) {
    for (int distance = 1; distance < size; ++distance) {
        const int previous = (rank + size - distance) % size;
        operation.receive(part(previous), previous);
    }
    for (int distance = 1; distance < size; ++distance)
        operation.send(own, (rank + distance) % size);
}

MpiHandle split(MPI_Comm world, const MpiGroup& group) {
    MPI_Comm comm = MPI_COMM_NULL;
    check_mpi(MPI_Comm_split(world, group.color, group.key, &comm), "MPI_Comm_split");
    return MpiHandle(comm);
}

}  // namespace

struct MpiCommunicator::State {
    Backend& backend;
    MpiOptions options;
    MpiProgress& progress;
    MpiHandle handle;
    HostMemory memory;
    int collectives = 0;
    std::int64_t sent_bytes = 0;

    int next_tag() {
        const int tag = message_tag + 1 + collectives;
        collectives = (collectives + 1) % collective_tags;
        return tag;
    }
};

/// An operation under construction: its tensors in host memory, and its messages.
class MpiCommunicator::Transfer {
public:
    Transfer(const MpiCommunicator& owner, std::string_view what, bool Traffic::*kind, int tag)
        : Transfer(owner, what, tag) {
        GPTRAIN_CHECK(state_.options.traffic.*kind, what, " on ", state_.options.name,
                      ", whose ranks are not connected for it");
    }
    Transfer(const MpiCommunicator& owner, std::string_view what, int tag)
        : state_(*owner.state_),
          rank_(owner.rank_),
          size_(owner.size_),
          operation_(std::make_shared<MpiOperation>(
              text(what, " on ", state_.options.name, " (rank ", owner.rank_, " of ", owner.size_,
                   ")"),
              MpiOperation::Place{state_.handle.comm(), tag, state_.options.message_bytes})) {}

    MpiOperation& operator*() const { return *operation_; }
    MpiOperation* operator->() const { return operation_.get(); }

    /// x in memory that MPI can access, with its values as of the computation already issued.
    Tensor input(const Tensor& x) {
        const Tensor host = output(x);
        if (state_.options.staged && x.bytes() > 0) {
            state_.backend.copy(host, x);
            state_.backend.synchronize();
        }
        return host;
    }

    /// Memory for x that MPI can access, to be filled; `start` copies it to x.
    Tensor output(const Tensor& x) {
        if (state_.options.staged) return Tensor(more_memory(x.bytes()), x.dtype(), x.shape());
        // Work issued before may still use it.
        state_.backend.synchronize();
        return x;
    }

    /// Host memory, held until the operation is waited for.
    std::byte* more_memory(std::int64_t bytes) {
        if (bytes == 0) return nullptr;
        buffers_->push_back(state_.memory.take(bytes));
        return buffers_->back().data();
    }

    /// Posts messages: sends part(r) to every rank r. Returns all ranks' versions of this rank's
    /// part, in rank order.
    std::vector<ByteRuns> collect(const std::function<ByteRuns(int rank)>& part) {
        const ByteRuns own = part(rank_);
        std::byte* memory = more_memory((size_ - 1) * own.total());
        std::vector<ByteRuns> places(static_cast<std::size_t>(size_), own);
        for (int rank = 0; rank < size_; ++rank) {
            if (rank == rank_) continue;
            at(places, rank) = contiguous_runs(memory, own);
            memory += own.total();
        }
        for (int distance = 1; distance < size_; ++distance) {
            const int previous = (rank_ + size_ - distance) % size_;
            operation_->receive(at(places, previous), previous);
        }
        for (int distance = 1; distance < size_; ++distance) {
            const int next = (rank_ + distance) % size_;
            operation_->send(part(next), next);
        }
        return places;
    }

    /// Starts the operation. `host`, if any, was made from `result` and will be copied to it.
    Pending start(const Tensor& result = {}, const Tensor& host = {}) {
        MpiOperation& operation = *operation_;
        operation.then([&state = state_, &operation, buffers = buffers_, result, host] {
            state.sent_bytes += operation.sent_bytes();
            if (state.options.staged && !result.empty() && result.bytes() > 0) {
                state.backend.copy(result, host);
                // The copy must read the buffers before anything overwrites them.
                state.backend.synchronize();
            }
        });
        state_.progress.start(operation_);
        if (operation_->done() && buffers_->empty()) return {};
        return Pending([&state = state_, operation = operation_, buffers = buffers_] {
            // Other ranks may never reach the operation.
            if (std::uncaught_exceptions() > 0) return;
            state.progress.wait(*operation);
            // Not already when it is done: held memory must not depend on timing.
            for (Buffer& buffer : *buffers)
                state.memory.release(std::move(buffer));
        });
    }

private:
    State& state_;
    int rank_;
    int size_;
    std::shared_ptr<MpiOperation> operation_;
    std::shared_ptr<std::vector<Buffer>> buffers_ = std::make_shared<std::vector<Buffer>>();
};

MpiCommunicator::MpiCommunicator(const MpiSession& session, const MpiGroup& group, Backend& backend,
                                 const MpiOptions& options) {
    GPTRAIN_CHECK(session.running(), "no launcher started this process");
    GPTRAIN_CHECK(options.message_bytes > 0 && options.message_bytes <= std::int64_t{1} << 30,
                  options.message_bytes);
    MpiState& shared = *session.state_;
    state_ = std::make_unique<State>(State{.backend = backend,
                                           .options = options,
                                           .progress = shared.progress,
                                           .handle = split(shared.world.comm(), group),
                                           .memory = HostMemory(backend)});
    const MPI_Comm comm = state_->handle.comm();
    check_mpi(MPI_Comm_rank(comm, &rank_), "MPI_Comm_rank");
    check_mpi(MPI_Comm_size(comm, &size_), "MPI_Comm_size");
}

MpiCommunicator::~MpiCommunicator() = default;

void MpiCommunicator::check_rank(int rank) const {
    GPTRAIN_CHECK(rank >= 0 && rank < size_, "rank ", rank, " of ", size_);
}

void MpiCommunicator::check_parts(const Tensor& part, const Tensor& all, int dim) const {
    GPTRAIN_CHECK(part.dtype() == all.dtype() && part.rank() == all.rank() &&
                      part.size(dim) * size_ == all.size(dim) &&
                      part.elements() * size_ == all.elements(),
                  part.shape().to_text(), " as one of ", size_, " parts of ", all.shape().to_text(),
                  " along dim ", dim);
}

std::int64_t MpiCommunicator::held_bytes() const {
    return state_->memory.held();
}

std::int64_t MpiCommunicator::sent_bytes() const {
    return state_->sent_bytes;
}

Pending MpiCommunicator::all_reduce(const Tensor& x, Reduce reduce) {
    GPTRAIN_CHECK(x.contiguous(), "all_reduce of ", x.shape().to_text());
    Transfer transfer(*this, "all_reduce", &Traffic::collectives, state_->next_tag());
    const Tensor host = transfer.input(x);
    const auto range = [host, size = size_](int rank) { return share_of(host, rank, size); };
    const std::vector<ByteRuns> values = transfer.collect(range);
    MpiOperation& operation = *transfer;
    operation.then(
        [&operation, range, values, rank = rank_, size = size_, reduce, dtype = x.dtype()] {
            const ByteRuns own = range(rank);
            reduce_runs(own, values, dtype, reduce);
            spread(operation, own, range, rank, size);
        });
    return transfer.start(x, host);
}

Pending MpiCommunicator::reduce_scatter(const Tensor& to, const Tensor& from, int dim) {
    check_parts(to, from, dim);
    Transfer transfer(*this, "reduce_scatter", &Traffic::collectives, state_->next_tag());
    const Tensor host_from = transfer.input(from);
    const Tensor host_to = transfer.output(to);
    const std::vector<ByteRuns> values = transfer.collect(
        [&](int rank) { return runs_of(part_of(host_from, dim, rank, size_), dim); });
    transfer->then([values, sum = runs_of(host_to, dim), dtype = to.dtype()] {
        reduce_runs(sum, values, dtype, Reduce::sum);
    });
    return transfer.start(to, host_to);
}

Pending MpiCommunicator::all_gather(const Tensor& to, const Tensor& from, int dim) {
    check_parts(from, to, dim);
    Transfer transfer(*this, "all_gather", &Traffic::collectives, state_->next_tag());
    const ByteRuns own = runs_of(transfer.input(from), dim);
    const Tensor host_to = transfer.output(to);
    const auto part = [&](int rank) { return runs_of(part_of(host_to, dim, rank, size_), dim); };
    copy_runs(part(rank_), own);
    spread(*transfer, own, part, rank_, size_);
    return transfer.start(to, host_to);
}

Pending MpiCommunicator::all_to_all(const Tensor& to, const Tensor& from) {
    GPTRAIN_CHECK(to.dtype() == from.dtype() && to.elements() == from.elements() &&
                      to.contiguous() && from.contiguous(),
                  "all_to_all from ", from.shape().to_text(), " to ", to.shape().to_text());
    Transfer transfer(*this, "all_to_all", &Traffic::all_pairs, state_->next_tag());
    const Tensor host_from = transfer.input(from);
    const Tensor host_to = transfer.output(to);
    const auto part = [&](const Tensor& x, int rank) {
        return runs_of(part_of(x, 0, rank, size_), 0);
    };
    copy_runs(part(host_to, rank_), part(host_from, rank_));
    for (int distance = 1; distance < size_; ++distance) {
        const int previous = (rank_ + size_ - distance) % size_;
        transfer->receive(part(host_to, previous), previous);
    }
    for (int distance = 1; distance < size_; ++distance) {
        const int next = (rank_ + distance) % size_;
        transfer->send(part(host_from, next), next);
    }
    return transfer.start(to, host_to);
}

Pending MpiCommunicator::broadcast(const Tensor& x, int root) {
    check_rank(root);
    GPTRAIN_CHECK(x.contiguous(), "broadcast of ", x.shape().to_text());
    Transfer transfer(*this, "broadcast", &Traffic::collectives, state_->next_tag());
    const bool is_root = rank_ == root;
    const Tensor host = is_root ? transfer.input(x) : transfer.output(x);
    const ByteRuns runs = runs_of(host, 0);
    // A binomial tree. Counted from the root, rank r receives from r without its lowest set bit and
    // sends to r plus each lower power of two.
    const int place = (rank_ + size_ - root) % size_;
    const int lowest_bit =
        is_root ? static_cast<int>(std::bit_ceil(unsigned(size_))) : place & -place;
    MpiOperation& operation = *transfer;
    if (!is_root) operation.receive(runs, (place - lowest_bit + root) % size_);
    operation.then([&operation, runs, place, lowest_bit, root, size = size_] {
        for (int bit = lowest_bit / 2; bit > 0; bit /= 2) {
            if (place + bit < size) operation.send(runs, (place + bit + root) % size);
        }
    });
    return is_root ? transfer.start() : transfer.start(x, host);
}

Pending MpiCommunicator::send(const Tensor& x, int to) {
    check_rank(to);
    Transfer transfer(*this, "send", &Traffic::one_way, message_tag);
    transfer->send(run_of(transfer.input(x)), to);
    return transfer.start();
}

Pending MpiCommunicator::recv(const Tensor& x, int from) {
    check_rank(from);
    Transfer transfer(*this, "recv", &Traffic::one_way, message_tag);
    const Tensor host = transfer.output(x);
    transfer->receive(run_of(host), from);
    return transfer.start(x, host);
}

Pending MpiCommunicator::send_recv(const Tensor& sent, int to, const Tensor& received, int from) {
    check_rank(to);
    check_rank(from);
    Transfer transfer(*this, "send_recv", &Traffic::ring, message_tag);
    const Tensor host_sent = transfer.input(sent);
    const Tensor host_received = transfer.output(received);
    transfer->receive(run_of(host_received), from);
    transfer->send(run_of(host_sent), to);
    return transfer.start(received, host_received);
}

void MpiCommunicator::barrier() {
    Transfer transfer(*this, "barrier", message_tag);
    transfer->enter_barrier();
    transfer.start().wait();
}

}  // namespace gptrain
