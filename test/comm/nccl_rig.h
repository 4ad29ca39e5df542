// Communicators over the stand-ins for NCCL and CUDA.
#pragma once

#include <memory>
#include <utility>

#include "comm/mpi_communicator.h"
#include "cpu/cpu_backend.h"
#include "cuda/nccl/communicator.h"
#include "cuda/nccl/device_operations.h"
#include "fake_nccl.h"
#include "host_runtime.h"
#include "ranks.h"

namespace gptrain::test {

/// Resets the stand-in for NCCL when a case ends, so that later cases see nothing of this one.
struct CleanState {
    CleanState() = default;
    CleanState(const CleanState&) = delete;
    CleanState& operator=(const CleanState&) = delete;
    ~CleanState() { fake_state() = {}; }
};

inline std::unique_ptr<Communicator> connect_all(
    Backend& backend, const cuda::Stream& compute,
    std::shared_ptr<cuda::DeviceOperations> operations = nullptr, const RankGroup& group = {}) {
    auto hosts = std::make_unique<MpiCommunicator>(
        session(), MpiGroup{.color = 0, .key = session().rank()}, backend);
    return std::make_unique<cuda::NcclCommunicator>(
        std::make_shared<cuda::NcclCommunicators>(fake_nccl()), std::move(hosts), compute, group,
        std::move(operations));
}

/// A communicator of all ranks on stream `comm`, used from stream `compute`.
struct Rig {
    CleanState state;
    std::unique_ptr<Backend> backend = cpu::make_backend();
    cuda::Stream compute;
    std::unique_ptr<Communicator> all = connect_all(*backend, compute);
    int compute_number = number_of(compute.handle());
    int comm_number = compute_number + 1;
};

/// The Error that f throws.
template <class F>
Error error_of(const F& f) {
    try {
        f();
    } catch (const Error& error) {
        return error;
    }
    return {ExitCode::done, "no error"};
}

}  // namespace gptrain::test
