// The checks of a mesh of GPUs at the start, on stand-ins for NCCL and CUDA.
#include "cuda/mesh/start_checks.h"

#include <cstdlib>

#include "catch.h"
#include "comm/message_blocks.h"
#include "cuda/mesh/mesh.h"
#include "nccl_rig.h"
#include "support/temp_folder.h"

namespace gptrain::test {

TEST_CASE("messages may not hold all multiprocessors at once") {
    const std::vector<cuda::HeldBlocks> held = {{Axis::tp, 16}, {Axis::pp, 4}, {Axis::pp, 4}};
    CHECK_NOTHROW(cuda::check_multiprocessors(held, 1, 25));
    const Error error = error_of([&] { cuda::check_multiprocessors(held, 1, 24); });
    CHECK(error.code() == ExitCode::usage);
    CHECK(contains(error.what(), "all 24 multiprocessors"));
    CHECK(contains(error.what(), "tp 16 + pp 4 + pp 4"));
    CHECK_NOTHROW(cuda::check_multiprocessors(held, 5, 132));
    CHECK(error_of([&] { cuda::check_multiprocessors(held, 6, 132); }).code() == ExitCode::usage);
}

TEST_CASE("NCCL gets the thread blocks of an axis, which are few between stages") {
    if (session().size() == 1) return;
    const CleanState state;
    const auto backend = cpu::make_backend();
    {
        const Mesh mesh = cuda::gpu_mesh(session(), {.tensor = session().size()}, {}, *backend);
        CHECK(fake_state().most_blocks.front() == most_message_blocks(Axis::tp));
    }
    CHECK(most_message_blocks(Axis::pp) <= 4);
    // The ranks share the stand-in's device, which has too few for what the user wants.
    setenv("NCCL_MAX_CTAS", "1000", 1);
    const Error error =
        error_of([&] { cuda::gpu_mesh(session(), {.data = session().size()}, {}, *backend); });
    unsetenv("NCCL_MAX_CTAS");
    CHECK(error.code() == ExitCode::usage);
    CHECK(contains(error.what(), "NCCL_MAX_CTAS"));
}

TEST_CASE("streams that share a queue are warned of") {
    CHECK(cuda::queue_warning({.nccl = 10}, 32).empty());
    CHECK(contains(cuda::queue_warning({.nccl = 11}, 32), "this rank has 35 streams"));
    CHECK(cuda::queue_warning({.nccl = 6, .peer = 6}, 32).empty());
    CHECK(contains(cuda::queue_warning({.nccl = 6, .peer = 7}, 32), "this rank has 34 streams"));
}

TEST_CASE("tp over the border of a node is warned of, with two ranks that it concerns") {
    const std::vector<std::string> block = {"n1", "n1", "n1", "n1", "n2", "n2", "n2", "n2"};
    CHECK(cuda::placement_warning(block, {.data = 2, .tensor = 4}).empty());
    CHECK(cuda::placement_warning(block, {.data = 8}).empty());
    const std::vector<std::string> cyclic = {"n1", "n2", "n1", "n2"};
    const std::string warning = cuda::placement_warning(cyclic, {.data = 2, .tensor = 2});
    CHECK(contains(warning, "ranks 0 (n1) and 1 (n2)"));
    CHECK(contains(warning, "--distribution=block"));
    const std::vector<std::string> uneven = {"n1", "n1", "n1", "n2", "n2", "n2"};
    CHECK(contains(cuda::placement_warning(uneven, {.data = 3, .tensor = 2}),
                   "ranks 2 (n1) and 3 (n2)"));
}

TEST_CASE("all ranks have to load the same NCCL") {
    CHECK_NOTHROW(cuda::check_same_nccl(session(), 22809));
    if (session().size() == 1) return;
    const int version = session().rank() == 1 ? 22703 : 22809;
    const Error error = error_of([&] { cuda::check_same_nccl(session(), version); });
    CHECK(error.code() == ExitCode::usage);
    CHECK(contains(error.what(), "rank 0 has loaded NCCL 2.28.9 and rank 1 NCCL 2.27.3"));
}

TEST_CASE("the backend learns from the order of calls that messages are in flight") {
    if (session().size() == 1) return;
    const CleanState state;
    const auto backend = cpu::make_backend();
    const Mesh mesh = cuda::gpu_mesh(session(), {.tensor = session().size()}, {}, *backend);
    CHECK_FALSE(messages_in_flight()());
    const Array x(*backend, DType::f32, {3});
    Pending first = mesh.tp().all_reduce(*x, Reduce::sum);
    {
        const Pending second = mesh.tp().all_reduce(*x, Reduce::sum);
        first.wait();
        CHECK(messages_in_flight()());
    }
    CHECK_FALSE(messages_in_flight()());
}

}  // namespace gptrain::test
