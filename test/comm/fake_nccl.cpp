#include "fake_nccl.h"

#include <algorithm>
#include <functional>
#include <vector>

#include "cpu/cpu_backend.h"
#include "host_runtime.h"
#include "ranks.h"

namespace gptrain::test {
namespace {

constexpr char id_byte = 42;

/// An NCCL communicator.
struct Fake {
    std::unique_ptr<Backend> backend = cpu::make_backend();
    MpiCommunicator hosts{
        session(), {.color = 0, .key = session().rank()}, *backend, {.name = "fake NCCL"}};
};

Fake& fake_of(ncclComm_t comm) {
    return *reinterpret_cast<Fake*>(comm);
}

/// The calls of the open group; they start together when it ends.
std::vector<std::function<Pending()>>& group() {
    static std::vector<std::function<Pending()>> calls;
    return calls;
}

ncclResult_t queue(const char* name, cudaStream_t stream, std::function<Pending()> call) {
    if (fake_state().open_groups != 1) return ncclInvalidUsage;
    issued().push_back(text(name, " on ", number_of(stream)));
    group().push_back(std::move(call));
    return ncclSuccess;
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

ncclResult_t get_unique_id(ncclUniqueId* id) {
    std::fill(std::begin(id->internal), std::end(id->internal), id_byte);
    return ncclSuccess;
}

ncclResult_t init_rank(ncclComm_t* comm, int size, ncclUniqueId id, int rank,
                       ncclConfig_t* config) {
    const bool same_id = std::all_of(std::begin(id.internal), std::end(id.internal),
                                     [](char byte) { return byte == id_byte; });
    if (!same_id || config->blocking != 0) return ncclInvalidArgument;
    fake_state().most_blocks.push_back(config->maxCTAs);
    auto made = std::make_unique<Fake>();
    if (made->hosts.size() != size || made->hosts.rank() != rank) return ncclInvalidArgument;
    *comm = reinterpret_cast<ncclComm_t>(made.release());
    return state_now();
}

ncclResult_t group_end() {
    --fake_state().open_groups;
    std::vector<Pending> started;
    if (group().empty()) issued().push_back("group ends");
    for (const auto& call : group())
        started.push_back(call());
    group().clear();
    return state_now();
}

ncclResult_t all_reduce(const void* from, void* to, std::size_t count, ncclDataType_t type,
                        ncclRedOp_t how, ncclComm_t comm, cudaStream_t stream) {
    if (from != to) return ncclInvalidArgument;
    return queue("all_reduce", stream, [=] {
        return fake_of(comm).hosts.all_reduce(tensor(to, count, type),
                                              how == ncclMax ? Reduce::max : Reduce::sum);
    });
}

ncclResult_t reduce_scatter(const void* from, void* to, std::size_t count, ncclDataType_t type,
                            ncclRedOp_t how, ncclComm_t comm, cudaStream_t stream) {
    if (how != ncclSum) return ncclInvalidArgument;
    return queue("reduce_scatter", stream, [=] {
        MpiCommunicator& hosts = fake_of(comm).hosts;
        const auto all = count * static_cast<std::size_t>(hosts.size());
        return hosts.reduce_scatter(tensor(to, count, type), tensor(from, all, type), 0);
    });
}

ncclResult_t all_gather(const void* from, void* to, std::size_t count, ncclDataType_t type,
                        ncclComm_t comm, cudaStream_t stream) {
    if (fake_state().all_gather != ncclSuccess) return fake_state().all_gather;
    return queue("all_gather", stream, [=] {
        MpiCommunicator& hosts = fake_of(comm).hosts;
        const auto all = count * static_cast<std::size_t>(hosts.size());
        return hosts.all_gather(tensor(to, all, type), tensor(from, count, type), 0);
    });
}

ncclResult_t broadcast(const void* from, void* to, std::size_t count, ncclDataType_t type, int root,
                       ncclComm_t comm, cudaStream_t stream) {
    if (from != to) return ncclInvalidArgument;
    return queue("broadcast", stream,
                 [=] { return fake_of(comm).hosts.broadcast(tensor(to, count, type), root); });
}

ncclResult_t send(const void* data, std::size_t count, ncclDataType_t type, int peer,
                  ncclComm_t comm, cudaStream_t stream) {
    return queue("send", stream,
                 [=] { return fake_of(comm).hosts.send(tensor(data, count, type), peer); });
}

ncclResult_t recv(void* data, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                  cudaStream_t stream) {
    return queue("recv", stream,
                 [=] { return fake_of(comm).hosts.recv(tensor(data, count, type), peer); });
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
