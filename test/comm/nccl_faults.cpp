// Lost ranks and refused calls, on stand-ins for NCCL and CUDA.
#include "catch.h"
#include "cuda/mesh/mesh.h"
#include "nccl_rig.h"

namespace gptrain::test {

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

TEST_CASE("Lost hardware has the exit code of a lost rank, unlike a wrong start and a bug") {
    const auto code_of = [](ncclResult_t fault) {
        Rig rig;
        const Array x(*rig.backend, DType::f32, {3});
        fake_state().async_error = fault;
        return error_of([&] { rig.all->all_reduce(*x, Reduce::sum).wait(); }).code();
    };
    CHECK(code_of(ncclSystemError) == ExitCode::hang);
    CHECK(code_of(ncclUnhandledCudaError) == ExitCode::hang);
    CHECK(code_of(ncclInvalidUsage) == ExitCode::usage);
    CHECK(code_of(ncclInternalError) == ExitCode::bug);
}

TEST_CASE("A fault of the machine while ranks connect is one of its set-up, with advice") {
    const CleanState state;
    const auto backend = cpu::make_backend();
    const cuda::Stream compute;
    for (const ncclResult_t fault : {ncclSystemError, ncclUnhandledCudaError}) {
        fake_state().polls_in_progress = 1;
        fake_state().async_error = fault;
        const Error error = error_of([&] { connect_all(*backend, compute); });
        CHECK(error.code() == ExitCode::usage);
        const std::string message = error.what();
        CHECK(message.find("its details") != std::string::npos);
        CHECK(message.find("docs/clusters.md") != std::string::npos);
    }
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

TEST_CASE("The axes of a mesh of GPUs are joined by NCCL") {
    const CleanState state;
    const auto backend = cpu::make_backend();
    const Mesh mesh = cuda::gpu_mesh(session(), {.tensor = session().size()}, {}, *backend);
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

TEST_CASE("The communicators of a rank are aborted together, or not at all") {
    if (session().size() == 1) return;
    const CleanState state;
    const auto backend = cpu::make_backend();
    // The groups dp, dp x cp and tp x cp x dp have several ranks.
    const auto make = [&] {
        return cuda::gpu_mesh(session(), {.data = session().size()}, {}, *backend);
    };
    const std::vector<std::string> together = {"abort", "abort", "abort", "group ends"};
    {
        const Mesh mesh = make();
        const Array x(*backend, DType::f32, {3});
        fake_state().async_error = ncclRemoteError;
        issued().clear();
        CHECK(error_of([&] { mesh[Axis::dp].all_reduce(*x, Reduce::sum).wait(); }).code() ==
              ExitCode::hang);
        CHECK(issued() == together);
        CHECK(error_of([&] { mesh.dp_cp().all_reduce(*x, Reduce::sum).wait(); }).code() ==
              ExitCode::bug);
        fake_state().async_error = ncclSuccess;
    }
    // When the mesh has gone, the host has nothing to ask.
    asked_while_waiting()();
    {
        // A rank that fails alone has ended its messages when its Error passes.
        const Mesh mesh = make();
        issued().clear();
        CHECK(error_of([&] { or_abort(mesh, [] { fail(ExitCode::io, "disk full"); }); }).code() ==
              ExitCode::io);
        CHECK(issued() == together);
    }
    {
        const Mesh mesh = make();
        const auto fault = [] { throw CommonError(ExitCode::io, "all ranks know"); };
        issued().clear();
        CHECK(error_of([&] { or_abort(mesh, fault); }).code() == ExitCode::io);
        CHECK(issued().empty());
        CHECK(or_abort(mesh, [] { return 3; }) == 3);
    }
    CHECK(fake_state().aborted == 6);
    CHECK(fake_state().destroyed == 3);
}

}  // namespace gptrain::test
