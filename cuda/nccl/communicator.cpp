#include "cuda/nccl/communicator.h"

#include <algorithm>
#include <exception>
#include <thread>
#include <utility>

#include "base/log.h"
#include "comm/byte_runs.h"
#include "comm/message_blocks.h"
#include "cuda/runtime/call.h"

namespace gptrain::cuda {
namespace {

ncclDataType_t summed_type(DType dtype) {
    switch (dtype) {
        case DType::f32: return ncclFloat32;
        case DType::bf16: return ncclBfloat16;
        case DType::f16: return ncclFloat16;
        case DType::f64: return ncclFloat64;
        case DType::i32: return ncclInt32;
        case DType::i64: return ncclInt64;
        case DType::u8: return ncclUint8;
        default: fail(ExitCode::bug, "NCCL: no reduction of ", name_of(dtype));
    }
}

std::size_t unsigned_size(std::int64_t size) {
    return static_cast<std::size_t>(size);
}

/// Byte runs of the whole tensor and of its part, one message each. The parts are stored in rank
/// order within a run of the whole, as NCCL requires.
struct PartedRuns {
    ByteRuns whole;
    ByteRuns part;

    PartedRuns(const Tensor& all, const Tensor& one, int dim, int size)
        : whole(runs_of(all, dim)), part(runs_of(one, dim)) {
        GPTRAIN_CHECK(all.dtype() == one.dtype() && whole.count == part.count &&
                          whole.bytes == part.bytes * size,
                      one.shape().to_text(), " as one of ", size, " parts of ",
                      all.shape().to_text(), " along dim ", dim);
    }
};

}  // namespace

bool NcclCommunicators::connected() const {
    return std::any_of(all_.begin(), all_.end(),
                       [](const auto* one) { return one->comm_ != nullptr; });
}

void NcclCommunicators::abort() noexcept {
    if (!connected()) return;
    // In a group the operations of all end before NCCL waits for the stream of any.
    nccl_.group_start();
    for (NcclCommunicator* one : all_)
        if (one->comm_ != nullptr) nccl_.abort(std::exchange(one->comm_, nullptr));
    nccl_.group_end();
}

void NcclCommunicators::poll() const {
    for (NcclCommunicator* one : all_)
        one->poll();
}

NcclCommunicator::NcclCommunicator(std::shared_ptr<NcclCommunicators> siblings,
                                   std::unique_ptr<Communicator> host, const Stream& compute,
                                   const RankGroup& group,
                                   std::shared_ptr<DeviceOperations> operations)
    : siblings_(std::move(siblings)),
      nccl_(siblings_->nccl()),
      host_communicator_(std::move(host)),
      compute_(compute),
      name_(name_of(group.axis)),
      axis_(group.axis),
      traffic_(group.traffic),
      operations_(std::move(operations)) {
    siblings_->all_.push_back(this);
    try {
        connect();
        warm_up();
        connecting_ = false;
    } catch (...) {
        siblings_->abort();
        std::erase(siblings_->all_, this);
        throw;
    }
}

NcclCommunicator::~NcclCommunicator() {
    try {
        if (std::uncaught_exceptions() == 0) {
            stream_.synchronize();
            if (comm_ != nullptr) {
                settle(nccl_.finalize(comm_), "ncclCommFinalize");
                nccl_.destroy(std::exchange(comm_, nullptr));
            }
        }
    } catch (const Error&) {
        // Any later use of a failed device reports it.
    }
    if (comm_ != nullptr) siblings_->abort();
    std::erase(siblings_->all_, this);
}

void NcclCommunicator::connect() {
    ncclUniqueId id{};
    if (rank() == 0) check(nccl_.get_unique_id(&id), "ncclGetUniqueId");
    const Tensor shared(reinterpret_cast<std::byte*>(&id), DType::u8, {sizeof id});
    host_communicator_->broadcast(shared, 0).wait();
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    // NCCL_MAX_CTAS, if the user sets it, has priority in NCCL.
    config.maxCTAs = most_message_blocks(axis_);
    settle(nccl_.init_rank(&comm_, size(), id, rank(), &config), "ncclCommInitRankConfig");
}

void NcclCommunicator::settle(ncclResult_t status, std::string_view call) {
    while (status == ncclInProgress) {
        std::this_thread::yield();
        check(nccl_.async_error(comm_, &status), "ncclCommGetAsyncError");
    }
    check(status, call);
}

/// NCCL connects ranks on first use, which is slow and needs all ranks.
void NcclCommunicator::warm_up() {
    // Freed at the end of this function, when nothing uses it any more or everything has failed.
    const auto release_memory = [](std::byte* data) { release(data, MemorySpace::device); };
    const std::int64_t elements = size();
    const std::unique_ptr<std::byte, decltype(release_memory)> memory(
        allocate(2 * elements * size_of(DType::f32), MemorySpace::device), release_memory);
    const Tensor both(memory.get(), DType::f32, {2, elements});
    set_bytes(both.data(), 0, both.bytes(), compute_);
    const Tensor all = both.slice(0, 0, 1).view({elements});
    const Tensor other = both.slice(0, 1, 1).view({elements});
    const Tensor own = all.slice(0, rank(), 1);
    const int next = (rank() + 1) % size();
    const int previous = (rank() + size() - 1) % size();
    // NCCL takes buffers for the pairs of ranks that an operation connects: now, before memory is
    // planned.
    if (traffic_.collectives) {
        all_reduce(all, Reduce::sum).wait();
        reduce_scatter(own, all, 0).wait();
        all_gather(all, own, 0).wait();
    }
    if (traffic_.all_pairs) all_to_all(other, all).wait();
    if (traffic_.ring) send_recv(all, next, other, previous).wait();
    if (traffic_.one_way && size() > 1) {
        if (rank() == 0) send(all, 1).wait();
        if (rank() == 1) recv(all, 0).wait();
    }
    Event done;
    done.record(stream_);
    while (!done.done()) {
        poll();
        std::this_thread::yield();
    }
}

/// Faults of other ranks, of the network and of the device come from outside the program; others,
/// such as two ranks on one device, from how it was started.
ExitCode NcclCommunicator::exit_code_of(ncclResult_t status) const {
    switch (status) {
        case ncclRemoteError: return ExitCode::hang;
        case ncclSystemError:
        case ncclUnhandledCudaError: return connecting_ ? ExitCode::usage : ExitCode::hang;
        case ncclInvalidUsage: return ExitCode::usage;
        default: return ExitCode::bug;
    }
}

void NcclCommunicator::check(ncclResult_t status, std::string_view call) {
    if (status == ncclSuccess || status == ncclInProgress) return;
    const char* details = nccl_.last_error(comm_);
    const ExitCode code = exit_code_of(status);
    const std::string message =
        text("NCCL: ", call, " on ", name_, " (rank ", rank(), " of ", size(),
             "): ", nccl_.error_string(status), details == nullptr || *details == '\0' ? "" : ": ",
             details == nullptr ? "" : details,
             connecting_ && code == ExitCode::usage
                 ? "; NCCL_DEBUG=WARN prints the cause, and docs/clusters.md has the usual ones"
                 : "");
    warn(message, "; this rank aborts its communicators");
    siblings_->abort();
    fail(code, message);
}

void NcclCommunicator::poll() {
    GPTRAIN_CHECK(comm_ != nullptr, "the communicator ", name_, " was aborted");
    ncclResult_t status = ncclSuccess;
    check(nccl_.async_error(comm_, &status), "ncclCommGetAsyncError");
    check(status, "an operation in progress");
}

std::shared_ptr<Event> NcclCommunicator::free_event() {
    // Others may still wait for the event, or ask whether it is done.
    const bool reuses = !events_.empty() && events_.front().use_count() == 1;
    std::shared_ptr<Event> event = reuses ? events_.front() : std::make_shared<Event>();
    if (reuses) events_.pop_front();
    events_.push_back(event);
    return event;
}

/// issue(message) makes NCCL calls, each as message(call), and does not throw. The calls become one
/// group between the streams' waits.
Pending NcclCommunicator::issue(bool Traffic::*kind, std::string_view call, const auto& issue) {
    GPTRAIN_CHECK(traffic_.*kind, call, " on ", name_, ", whose ranks are not connected for it");
    poll();
    const std::shared_ptr<Event> computed = free_event();
    computed->record(compute_);
    stream_.wait(*computed);
    check(nccl_.group_start(), "ncclGroupStart");
    // Close the group before checking for errors.
    ncclResult_t fault = ncclSuccess;
    issue([&](ncclResult_t status) {
        if (fault == ncclSuccess) fault = status;
    });
    const ncclResult_t ended = nccl_.group_end();
    check(fault, call);
    settle(ended, call);
    const std::shared_ptr<Event> finished = free_event();
    finished->record(stream_);
    if (operations_) operations_->add(computed, finished);
    ++siblings_->in_flight_;
    return Pending([this, finished] {
        --siblings_->in_flight_;
        if (std::uncaught_exceptions() > 0) return;
        poll();
        operations_ ? operations_->timer().wait(*finished) : compute_.wait(*finished);
    });
}

Pending NcclCommunicator::all_reduce(const Tensor& x, Reduce reduce) {
    GPTRAIN_CHECK(x.contiguous(), "all_reduce of ", x.shape().to_text());
    if (x.elements() == 0) return {};
    const ncclDataType_t type = summed_type(x.dtype());
    return issue(&Traffic::collectives, "ncclAllReduce", [&](const auto& message) {
        message(nccl_.all_reduce(x.data(), x.data(), unsigned_size(x.elements()), type,
                                 reduce == Reduce::sum ? ncclSum : ncclMax, comm_,
                                 stream_.handle()));
    });
}

Pending NcclCommunicator::reduce_scatter(const Tensor& to, const Tensor& from, int dim) {
    const PartedRuns runs(from, to, dim, size());
    if (to.elements() == 0) return {};
    const ncclDataType_t type = summed_type(to.dtype());
    const std::int64_t elements = div_exact(runs.part.bytes, size_of(to.dtype()));
    return issue(&Traffic::collectives, "ncclReduceScatter", [&](const auto& message) {
        for (std::int64_t run = 0; run < runs.part.count; ++run) {
            message(nccl_.reduce_scatter(runs.whole[run], runs.part[run], unsigned_size(elements),
                                         type, ncclSum, comm_, stream_.handle()));
        }
    });
}

Pending NcclCommunicator::all_gather(const Tensor& to, const Tensor& from, int dim) {
    const PartedRuns runs(to, from, dim, size());
    if (from.elements() == 0) return {};
    return issue(&Traffic::collectives, "ncclAllGather", [&](const auto& message) {
        for (std::int64_t run = 0; run < runs.part.count; ++run) {
            message(nccl_.all_gather(runs.part[run], runs.whole[run],
                                     unsigned_size(runs.part.bytes), ncclUint8, comm_,
                                     stream_.handle()));
        }
    });
}

Pending NcclCommunicator::all_to_all(const Tensor& to, const Tensor& from) {
    const ByteRuns received = run_of(to);
    const ByteRuns sent = run_of(from);
    GPTRAIN_CHECK(to.dtype() == from.dtype() && to.shape() == from.shape(), "all_to_all from ",
                  from.shape().to_text(), " to ", to.shape().to_text());
    if (sent.total() == 0) return {};
    div_exact(from.size(0), size());
    const std::int64_t part = sent.bytes / size();
    return issue(&Traffic::all_pairs, "ncclSend and ncclRecv of all_to_all",
                 [&](const auto& message) {
                     for (int rank = 0; rank < size(); ++rank) {
                         message(nccl_.send(sent.data + rank * part, unsigned_size(part), ncclUint8,
                                            rank, comm_, stream_.handle()));
                         message(nccl_.recv(received.data + rank * part, unsigned_size(part),
                                            ncclUint8, rank, comm_, stream_.handle()));
                     }
                 });
}

Pending NcclCommunicator::broadcast(const Tensor& x, int root) {
    const ByteRuns bytes = run_of(x);
    if (bytes.total() == 0) return {};
    return issue(&Traffic::collectives, "ncclBroadcast", [&](const auto& message) {
        message(nccl_.broadcast(bytes.data, bytes.data, unsigned_size(bytes.bytes), ncclUint8, root,
                                comm_, stream_.handle()));
    });
}

Pending NcclCommunicator::send(const Tensor& x, int to) {
    const ByteRuns bytes = run_of(x);
    if (bytes.total() == 0) return {};
    return issue(&Traffic::one_way, "ncclSend", [&](const auto& message) {
        message(nccl_.send(bytes.data, unsigned_size(bytes.bytes), ncclUint8, to, comm_,
                           stream_.handle()));
    });
}

Pending NcclCommunicator::recv(const Tensor& x, int from) {
    const ByteRuns bytes = run_of(x);
    if (bytes.total() == 0) return {};
    return issue(&Traffic::one_way, "ncclRecv", [&](const auto& message) {
        message(nccl_.recv(bytes.data, unsigned_size(bytes.bytes), ncclUint8, from, comm_,
                           stream_.handle()));
    });
}

Pending NcclCommunicator::send_recv(const Tensor& sent, int to, const Tensor& received, int from) {
    const ByteRuns out = run_of(sent);
    const ByteRuns in = run_of(received);
    if (out.total() == 0 && in.total() == 0) return {};
    return issue(&Traffic::ring, "ncclSend and ncclRecv", [&](const auto& message) {
        if (out.total() > 0) {
            message(nccl_.send(out.data, unsigned_size(out.bytes), ncclUint8, to, comm_,
                               stream_.handle()));
        }
        if (in.total() > 0) {
            message(nccl_.recv(in.data, unsigned_size(in.bytes), ncclUint8, from, comm_,
                               stream_.handle()));
        }
    });
}

}  // namespace gptrain::cuda
