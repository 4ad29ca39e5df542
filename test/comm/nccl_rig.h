// Communicators over the stand-ins for NCCL and CUDA.
#pragma once

#include <memory>
#include <utility>

#include "backend/passing_backend.h"
#include "comm/mpi_communicator.h"
#include "cpu/cpu_backend.h"
#include "cuda/nccl/communicator.h"
#include "cuda/progress/device_operations.h"
#include "fake_nccl.h"
#include "host_runtime.h"
#include "ranks.h"

namespace gptrain::test {

/// A device that works at once, and a stand-in for NCCL that is reset when a case ends, so that
/// later cases see nothing of this one.
struct CleanState {
    CleanState() { pace() = Pace::at_once; }
    CleanState(const CleanState&) = delete;
    CleanState& operator=(const CleanState&) = delete;
    ~CleanState() {
        fake_state() = {};
        pace() = Pace::at_once;
    }
};

/// The CPU as a device: ops and copies are issued to a stream.
class StreamBackend final : public EachOp<PassingBackend, StreamBackend> {
public:
    /// `stream` outlives it.
    explicit StreamBackend(const cuda::Stream& stream)
        : EachOp<PassingBackend, StreamBackend>(processor()), stream_(stream) {}

    void copy(const Tensor& to, const Tensor& from) override {
        issue(stream_.handle(), [=, this] { inner().copy(to, from); });
    }
    void synchronize() override { stream_.synchronize(); }
    template <class Op>
    void on(const Op& op) {
        issue(stream_.handle(), [=, this] { inner().run(op); });
    }

private:
    static Backend& processor() {
        static const std::unique_ptr<Backend> backend = cpu::make_backend();
        return *backend;
    }

    const cuda::Stream& stream_;
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
