#include "fake_nccl.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "comm/byte_runs.h"
#include "cpu/cpu_backend.h"
#include "delayed.h"
#include "host_runtime.h"
#include "ranks.h"

namespace gptrain::test {
namespace {

/// An NCCL communicator. All ranks of the world make one at the same time, each for its own group.
struct Fake {
    explicit Fake(const MpiGroup& group)
        : hosts(session(), group, *backend, {.name = "fake NCCL"}) {}

    std::unique_ptr<Backend> backend = cpu::make_backend();
    MpiCommunicator hosts;
};

Fake& fake_of(ncclComm_t comm) {
    return *reinterpret_cast<Fake*>(comm);
}

/// A call of the open group.
struct Call {
    std::string name;
    cudaStream_t stream;
    Tensor source;  ///< none if it only receives
    Tensor target;  ///< none if it only sends
    DelayedMessage::Send send;
};

/// The calls of the open group; they start together when it ends.
std::vector<Call>& group() {
    static std::vector<Call> calls;
    return calls;
}

ncclResult_t queue(Call call) {
    if (fake_state().open_groups != 1) return ncclInvalidUsage;
    call.name += text(" on ", number_of(call.stream));
    issued().push_back(call.name);
    group().push_back(std::move(call));
    return ncclSuccess;
}

/// The messages that have not started. Late ones start when this rank waits for any of them; others
/// as soon as the computation before them is done, which is before they are issued here.
Delays& delays() {
    static Delays late(Start::at_wait, {});
    static Delays at_once(Start::at_issue, {});
    return pace() == Pace::messages_late ? late : at_once;
}

DType dtype_of(ncclDataType_t type) {
    switch (type) {
        case ncclFloat32: return DType::f32;
        case ncclBfloat16: return DType::bf16;
        case ncclFloat16: return DType::f16;
        case ncclFloat64: return DType::f64;
        case ncclInt32: return DType::i32;
        case ncclInt64: return DType::i64;
        case ncclUint8: return DType::u8;
        default: fail(ExitCode::bug, "NCCL's type ", static_cast<int>(type));
    }
}

Tensor tensor(const void* data, std::size_t count, ncclDataType_t type) {
    auto* bytes = const_cast<std::byte*>(static_cast<const std::byte*>(data));
    return {bytes, dtype_of(type), {static_cast<std::int64_t>(count)}};
}

/// NCCL works on in the background.
ncclResult_t state_now() {
    return fake_state().polls_in_progress > 0 ? ncclInProgress : ncclSuccess;
}

/// Each byte of an id follows from the world rank that made it.
constexpr char first_id_byte = 42;

ncclResult_t get_unique_id(ncclUniqueId* id) {
    std::fill(std::begin(id->internal), std::end(id->internal),
              static_cast<char>(first_id_byte + session().rank()));
    return ncclSuccess;
}

ncclResult_t init_rank(ncclComm_t* comm, int size, ncclUniqueId id, int rank,
                       ncclConfig_t* config) {
    const char first = id.internal[0];
    const bool same_id = std::all_of(std::begin(id.internal), std::end(id.internal),
                                     [&](char byte) { return byte == first; });
    if (!same_id || first < first_id_byte || config->blocking != 0) return ncclInvalidArgument;
    fake_state().most_blocks.push_back(config->maxCTAs);
    auto made = std::make_unique<Fake>(MpiGroup{.color = first - first_id_byte, .key = rank});
    if (made->hosts.size() != size || made->hosts.rank() != rank) return ncclInvalidArgument;
    *comm = reinterpret_cast<ncclComm_t>(made.release());
    return state_now();
}

ncclResult_t group_end() {
    --fake_state().open_groups;
    if (group().empty()) issued().push_back("group ends");
    std::vector<std::pair<cudaStream_t, std::shared_ptr<DelayedMessage>>> started;
    for (Call& call : std::exchange(group(), {})) {
        auto message = std::make_shared<DelayedMessage>(DelayedMessage{
            .memory = InFlight(call.name, {call.source}, {call.target}), .send = call.send});
        started.emplace_back(call.stream, message);
        delays().issue(std::move(message));
    }
    for (const auto& [stream, message] : started)
        issue_late(stream, [&all = delays(), message = message] { all.finish(message); });
    return state_now();
}

ncclResult_t all_reduce(const void* from, void* to, std::size_t count, ncclDataType_t type,
                        ncclRedOp_t how, ncclComm_t comm, cudaStream_t stream) {
    if (from != to) return ncclInvalidArgument;
    const Tensor x = tensor(to, count, type);
    return queue({"all_reduce", stream, x, x, [=](const Tensor& into, const Tensor& out) {
                      copy_runs(run_of(into), run_of(out));
                      return fake_of(comm).hosts.all_reduce(
                          into, how == ncclMax ? Reduce::max : Reduce::sum);
                  }});
}

ncclResult_t reduce_scatter(const void* from, void* to, std::size_t count, ncclDataType_t type,
                            ncclRedOp_t how, ncclComm_t comm, cudaStream_t stream) {
    if (how != ncclSum) return ncclInvalidArgument;
    const auto all = count * static_cast<std::size_t>(fake_of(comm).hosts.size());
    return queue({"reduce_scatter", stream, tensor(from, all, type), tensor(to, count, type),
                  [=](const Tensor& into, const Tensor& out) {
                      return fake_of(comm).hosts.reduce_scatter(into, out, 0);
                  }});
}

ncclResult_t all_gather(const void* from, void* to, std::size_t count, ncclDataType_t type,
                        ncclComm_t comm, cudaStream_t stream) {
    if (fake_state().all_gather != ncclSuccess) return fake_state().all_gather;
    const auto all = count * static_cast<std::size_t>(fake_of(comm).hosts.size());
    return queue({"all_gather", stream, tensor(from, count, type), tensor(to, all, type),
                  [=](const Tensor& into, const Tensor& out) {
                      return fake_of(comm).hosts.all_gather(into, out, 0);
                  }});
}

ncclResult_t broadcast(const void* from, void* to, std::size_t count, ncclDataType_t type, int root,
                       ncclComm_t comm, cudaStream_t stream) {
    if (from != to) return ncclInvalidArgument;
    const Tensor x = tensor(to, count, type);
    const bool sends = fake_of(comm).hosts.rank() == root;
    return queue({"broadcast", stream, sends ? x : Tensor(), sends ? Tensor() : x,
                  [=](const Tensor& into, const Tensor& out) {
                      return fake_of(comm).hosts.broadcast(sends ? out : into, root);
                  }});
}

ncclResult_t send(const void* data, std::size_t count, ncclDataType_t type, int peer,
                  ncclComm_t comm, cudaStream_t stream) {
    return queue({"send",
                  stream,
                  tensor(data, count, type),
                  {},
                  [=](const Tensor& /*into*/, const Tensor& out) {
                      return fake_of(comm).hosts.send(out, peer);
                  }});
}

ncclResult_t recv(void* data, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                  cudaStream_t stream) {
    return queue({"recv",
                  stream,
                  {},
                  tensor(data, count, type),
                  [=](const Tensor& into, const Tensor& /*out*/) {
                      return fake_of(comm).hosts.recv(into, peer);
                  }});
}

void remove(ncclComm_t comm) {
    delete &fake_of(comm);
}

}  // namespace

FakeState& fake_state() {
    static FakeState state;
    return state;
}

cuda::Nccl fake_nccl() {
    cuda::Nccl nccl{};
    nccl.get_version = [](int* version) {
        *version = fake_state().version;
        return ncclSuccess;
    };
    nccl.error_string = [](ncclResult_t) { return "fake fault"; };
    nccl.last_error = [](ncclComm_t) { return "its details"; };
    nccl.get_unique_id = get_unique_id;
    nccl.init_rank = init_rank;
    nccl.finalize = [](ncclComm_t) {
        ++fake_state().finalized;
        return state_now();
    };
    nccl.destroy = [](ncclComm_t comm) {
        ++fake_state().destroyed;
        remove(comm);
        return ncclSuccess;
    };
    nccl.abort = [](ncclComm_t comm) {
        ++fake_state().aborted;
        issued().push_back("abort");
        remove(comm);
        return ncclSuccess;
    };
    nccl.async_error = [](ncclComm_t, ncclResult_t* error) {
        const bool busy = fake_state().polls_in_progress > 0;
        if (busy) --fake_state().polls_in_progress;
        *error = busy ? ncclInProgress : fake_state().async_error;
        return ncclSuccess;
    };
    nccl.group_start = [] {
        ++fake_state().open_groups;
        return ncclSuccess;
    };
    nccl.group_end = group_end;
    nccl.all_reduce = all_reduce;
    nccl.reduce_scatter = reduce_scatter;
    nccl.all_gather = all_gather;
    nccl.broadcast = broadcast;
    nccl.send = send;
    nccl.recv = recv;
    return nccl;
}

}  // namespace gptrain::test

namespace gptrain::cuda {

Nccl open_nccl(int /*driver*/) {
    return test::fake_nccl();
}

}  // namespace gptrain::cuda
