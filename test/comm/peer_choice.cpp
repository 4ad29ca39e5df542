// Which axes are copied between stand-ins for GPUs, and a mesh of which some are.
#include "catch.h"
#include "cuda/mesh/mesh.h"
#include "cuda/mesh/peers.h"
#include "emulator/peer_hooks.h"
#include "nccl_rig.h"
#include "support/captured_stderr.h"

namespace gptrain::test {
namespace {

/// The axes of one tp group on this machine, which also serves as tp x pp.
const PeerAxes all_of_tp = {Axis::tp, Axis::model};

PeerAxes chosen(Backend& backend, const std::optional<PeerAxes>& saved = {}) {
    return cuda::choose_peer_axes(session(), {.tensor = session().size()}, backend, saved);
}

}  // namespace

TEST_CASE("Axes inside a node are copied if all its GPUs can share memory") {
    if (session().size() == 1) return;
    const CleanState state;
    const auto backend = cpu::make_backend();
    CHECK(chosen(*backend) == all_of_tp);
    // One rank that cannot is enough for all to use NCCL.
    if (session().rank() == 1) emulator::fault_of_sharing() = "no IPC in this container";
    CHECK(chosen(*backend).empty());
    emulator::fault_of_sharing().clear();
    CHECK(chosen(*backend) == all_of_tp);
}

TEST_CASE("A run that resumes keeps the axes that are copied") {
    if (session().size() == 1) return;
    const CleanState state;
    const auto backend = cpu::make_backend();
    CHECK(chosen(*backend, PeerAxes{}).empty());
    CHECK(chosen(*backend, PeerAxes{Axis::model}) == PeerAxes{Axis::model});
    PeerAxes kept;
    const std::string warned = stderr_of([&] {
        kept = chosen(*backend, PeerAxes{Axis::tp, Axis::cp});
    });
    CHECK(kept == PeerAxes{Axis::tp});
    CHECK(contains(warned, "messages of cp were copies") == (session().rank() == 0));
}

TEST_CASE("A mesh copies on some axes, and has NCCL for the others") {
    if (session().size() == 1) return;
    const CleanState state;
    const auto backend = cpu::make_backend();
    const int size = session().size();
    const MeshShape shape = {.data = size};
    {
        const Mesh mesh = cuda::gpu_mesh(session(), shape, {}, *backend, nullptr, {Axis::dp_cp});
        const Array x(*backend, DType::f32, {1});
        x.put([](std::int64_t) { return session().rank() + 1; });
        issued().clear();
        mesh.dp_cp().all_reduce(*x, Reduce::sum).wait();
        CHECK(x.values() == std::vector<double>{size * (size + 1) / 2.0});
        CHECK(!messages_in_flight()());
    }
    {
        // All messages end together, of NCCL those of dp and of tp x cp x dp.
        const Mesh mesh = cuda::gpu_mesh(session(), shape, {}, *backend, nullptr, {Axis::dp_cp});
        const Array x(*backend, DType::f32, {1});
        issued().clear();
        mesh.abort("a test");
        CHECK(std::ranges::count(issued(), "abort") == 2);
        CHECK(error_of([&] { mesh.dp_cp().all_reduce(*x, Reduce::sum).wait(); }).code() ==
              ExitCode::hang);
        CHECK(error_of(asked_while_waiting()).code() != ExitCode::done);
        session().max(0);
    }
}

}  // namespace gptrain::test
