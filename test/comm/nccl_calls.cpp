// The order of streams, faults, and the choice of devices, on stand-ins for NCCL and CUDA.
#include <cstdlib>

#include "catch.h"
#include "comm/mpi_communicator.h"
#include "cpu/cpu_backend.h"
#include "cuda/nccl/communicator.h"
#include "cuda/nccl/device_choice.h"
#include "cuda/nccl/mesh.h"
#include "fake_nccl.h"
#include "host_runtime.h"
#include "ranks.h"

namespace gptrain::test {
namespace {

/// A communicator of all ranks on stream `comm`, used from stream `compute`.
struct Rig {
    Rig() = default;
    Rig(const Rig&) = delete;
    Rig& operator=(const Rig&) = delete;
    ~Rig() { fake_state() = {}; }

    std::unique_ptr<Backend> backend = cpu::make_backend();
    cuda::Stream compute;
    std::unique_ptr<Communicator> all = connect();
    int compute_number = number_of(compute.handle());
    int comm_number = compute_number + 1;

    std::unique_ptr<Communicator> connect() {
        auto hosts = std::make_unique<MpiCommunicator>(
            session(), MpiGroup{.color = 0, .key = session().rank()}, *backend);
        return std::make_unique<cuda::NcclCommunicator>(fake_nccl(), std::move(hosts), compute,
                                                        "tp");
    }
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

}  // namespace

TEST_CASE("Operations come after the computation before them, computation after their wait") {
    Rig rig;
    const int compute = rig.compute_number;
    const int comm = rig.comm_number;
    const Array whole(*rig.backend, DType::f32, {2, 3 * rig.all->size()});
    const Tensor own = whole->slice(1, 3 * rig.all->rank(), 3);
    whole.put([](std::int64_t) { return 0; });
    issued().clear();
    Pending first = rig.all->all_gather(*whole, own, 1);
    Pending second = rig.all->all_reduce(*whole, Reduce::max);
    const std::vector<std::string> started = {text(compute, " records"),
                                              text(comm, " waits for ", compute),
                                              text("all_gather on ", comm),
                                              text("all_gather on ", comm),
                                              text(comm, " records"),
                                              text(compute, " records"),
                                              text(comm, " waits for ", compute),
                                              text("all_reduce on ", comm),
                                              text(comm, " records")};
    CHECK(issued() == started);
    issued().clear();
    first.wait();
    second.wait();
    CHECK(issued() == std::vector<std::string>(2, text(compute, " waits for ", comm)));
    // Nothing is sent for zero elements.
    issued().clear();
    rig.all->all_reduce(whole->slice(0, 0, 0), Reduce::sum).wait();
    CHECK(issued().empty());
    rig.all.reset();
    CHECK(fake_state().destroyed == 1);
    CHECK(fake_state().aborted == 0);
}

TEST_CASE("A lost rank ends the communicator") {
    Rig rig;
    const Array x(*rig.backend, DType::f32, {3});
    Pending pending = rig.all->all_reduce(*x, Reduce::sum);
    fake_state().async_error = ncclRemoteError;
    const Error error = error_of([&] { pending.wait(); });
    CHECK(error.code() == ExitCode::hang);
    CHECK(std::string(error.what()).find("on tp (rank ") != std::string::npos);
    CHECK(std::string(error.what()).find("fake fault: its details") != std::string::npos);
    CHECK(fake_state().aborted == 1);
    CHECK(error_of([&] { rig.all->broadcast(*x, 0).wait(); }).code() == ExitCode::bug);
    rig.all.reset();
    CHECK(fake_state().aborted == 1);
    CHECK(fake_state().destroyed == 0);
}

TEST_CASE("A call that NCCL refuses leaves no open group") {
    Rig rig;
    const Array whole(*rig.backend, DType::f32, {rig.all->size()});
    fake_state().all_gather = ncclInvalidArgument;
    const Error error = error_of(
        [&] { rig.all->all_gather(*whole, whole->slice(0, rig.all->rank(), 1), 0).wait(); });
    CHECK(error.code() == ExitCode::bug);
    CHECK(fake_state().open_groups == 0);
    CHECK(fake_state().aborted == 1);
}

TEST_CASE("Deterministic sums keep NCCL to rings, unless the user says otherwise") {
    const auto algorithm = [] {
        const char* value = std::getenv("NCCL_ALGO");
        return std::string(value == nullptr ? "" : value);
    };
    unsetenv("NCCL_ALGO");
    cuda::set_nccl_environment(false);
    CHECK(algorithm().empty());
    cuda::set_nccl_environment(true);
    CHECK(algorithm() == "Ring");
    setenv("NCCL_ALGO", "Tree", 1);
    cuda::set_nccl_environment(true);
    CHECK(algorithm() == "Tree");
    unsetenv("NCCL_ALGO");
}

TEST_CASE("The axes of a mesh of GPUs are joined by NCCL") {
    const auto backend = cpu::make_backend();
    const Mesh mesh = cuda::nccl_mesh(session(), {.tensor = session().size()}, {}, *backend);
    const Array x(*backend, DType::f32, {1});
    x.put([](std::int64_t) { return session().rank() + 1; });
    issued().clear();
    mesh.tp().all_reduce(*x, Reduce::sum).wait();
    const int size = session().size();
    CHECK(x.values() == std::vector<double>{size * (size + 1) / 2.0});
    // A single rank has no one to communicate with.
    CHECK(issued().empty() == (size == 1));
    if (size == 1) return;
    // While the host waits for the device, a lost rank is noticed on every axis.
    asked_while_waiting()();
    fake_state().async_error = ncclRemoteError;
    CHECK(error_of(asked_while_waiting()).code() == ExitCode::hang);
    fake_state() = {};
}

TEST_CASE("Ranks take the devices of their machine in turn") {
    const int rank = session().rank();
    const int size = session().size();
    fake_devices() = size;
    const cuda::ChosenDevice own = cuda::choose_device(session());
    CHECK(own.index == rank);
    CHECK_FALSE(own.shared);

    fake_devices() = 1;
    const Error error = error_of([] { cuda::choose_device(session()); });
    setenv("GPTRAIN_SHARE_GPU", "1", 1);
    const cuda::ChosenDevice shared = cuda::choose_device(session());
    unsetenv("GPTRAIN_SHARE_GPU");
    CHECK(shared.index == 0);
    CHECK(shared.shared == (size > 1));
    CHECK(error.code() == (size > 1 ? ExitCode::usage : ExitCode::done));
    if (size > 1)
        CHECK(std::string(error.what()).find("ranks 0 and 1 have the same GPU") !=
              std::string::npos);

    fake_devices() = 0;
    const Error none = error_of([] { cuda::choose_device(session()); });
    CHECK(none.code() == ExitCode::usage);
}

}  // namespace gptrain::test
