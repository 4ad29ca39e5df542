// The order of streams, what the device reports, and the choice of devices, on stand-ins for NCCL
// and CUDA.
#include <algorithm>
#include <cstdlib>

#include "catch.h"
#include "cuda/mesh/device_choice.h"
#include "cuda/mesh/mesh.h"
#include "cuda/nccl/communicator.h"
#include "cuda/progress/device_operations.h"
#include "nccl_rig.h"

namespace gptrain::test {

TEST_CASE("Operations come after the computation before them, computation after their wait") {
    Rig rig;
    const int compute = rig.compute_number;
    const int comm = rig.comm_number;
    // The few blocks of a message must not wait until all blocks of a GEMM have started.
    CHECK(urgent_streams().contains(comm));
    CHECK(!urgent_streams().contains(compute));
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
    const auto before = fake_state();
    rig.all.reset();
    CHECK(fake_state().finalized == before.finalized + 1);
    CHECK(fake_state().destroyed == before.destroyed + 1);
    CHECK(fake_state().aborted == before.aborted);
}

TEST_CASE("Ranks are connected for what they send, and for nothing else") {
    const CleanState state;
    const auto backend = cpu::make_backend();
    const cuda::Stream compute;
    constexpr Traffic none = {
        .collectives = false, .ring = false, .all_pairs = false, .one_way = false};
    std::unique_ptr<Communicator> all;
    const auto calls = [&](const Traffic& traffic, std::string_view call) {
        issued().clear();
        all = connect_all(*backend, compute, nullptr, {.traffic = traffic});
        return std::count_if(issued().begin(), issued().end(), [&](const std::string& line) {
            return line.starts_with(text(call, " on"));
        });
    };
    const int ranks = session().size();
    Traffic traffic = none;
    traffic.collectives = true;
    CHECK(calls(traffic, "all_reduce") == 1);
    CHECK(calls(traffic, "send") == 0);
    const Array x(*backend, DType::f32, {ranks, 2});
    const Array y(*backend, DType::f32, {ranks, 2});
    CHECK(error_of([&] { all->all_to_all(*x, *y).wait(); }).code() == ExitCode::bug);
    CHECK(error_of([&] { all->send(*x, 0).wait(); }).code() == ExitCode::bug);
    traffic = none;
    traffic.ring = true;
    CHECK(calls(traffic, "all_reduce") == 0);
    CHECK(calls(traffic, "send") == 1);
    CHECK(error_of([&] { all->all_reduce(*x, Reduce::sum).wait(); }).code() == ExitCode::bug);
    traffic = none;
    traffic.all_pairs = true;
    CHECK(calls(traffic, "send") == ranks);
    CHECK(error_of([&] { all->send_recv(*x, 0, *y, 0).wait(); }).code() == ExitCode::bug);
    traffic = none;
    traffic.one_way = ranks > 1;
    CHECK(calls(traffic, "send") == (ranks > 1 && session().rank() == 0 ? 1 : 0));
}

TEST_CASE("NCCL is asked until it has connected the ranks, or lost one") {
    const CleanState state;
    fake_state().polls_in_progress = 5;
    {
        const Rig rig;
        CHECK(fake_state().polls_in_progress == 0);
        // Also where an operation connects ranks.
        fake_state().polls_in_progress = 3;
        const Array x(*rig.backend, DType::f32, {3});
        rig.all->all_reduce(*x, Reduce::sum).wait();
        CHECK(fake_state().polls_in_progress == 0);
        fake_state().polls_in_progress = 3;
    }
    fake_state().polls_in_progress = 5;
    fake_state().async_error = ncclRemoteError;
    const auto backend = cpu::make_backend();
    const cuda::Stream compute;
    CHECK(error_of([&] { connect_all(*backend, compute); }).code() == ExitCode::hang);
    CHECK(fake_state().aborted == 1);
}

namespace {

/// Records the calls that it receives.
struct Heard final : CommListener {
    std::vector<std::string> lines;
    DeviceProgress device;
    int device_calls = 0;

    void on_started(const CommCall& call) override { add("starts ", call); }
    void on_waiting(const CommCall& call) override { add("waits in ", call); }
    void on_finished(const CommCall& call) override { add("has ", call); }
    void on_device(const DeviceProgress& progress) override {
        device = progress;
        ++device_calls;
    }
    void add(std::string_view what, const CommCall& call) {
        lines.push_back(text(what, call.operation, ' ', call.number, " on ", name_of(call.axis)));
    }
};

}  // namespace

TEST_CASE("The device tells which of the issued operations it runs") {
    const CleanState state;
    let_device_run();
    Heard heard;
    const auto backend = cpu::make_backend();
    const cuda::Stream compute;
    const auto operations = std::make_shared<cuda::DeviceOperations>(heard, compute);
    const auto all =
        observed([&](const RankGroup&) { return connect_all(*backend, compute, operations); },
                 *operations)({.axis = Axis::tp, .id = 0, .rank = session().rank(), .size = 2});
    // The work of the constructor is none of the rank's operations.
    operations->poll();
    CHECK(heard.device_calls == 0);

    let_device_run();
    hold_device_at(0);
    const Array x(*backend, DType::f32, {3});
    Pending first = all->all_reduce(*x, Reduce::sum);
    Pending second = all->all_reduce(*x, Reduce::sum);
    first.wait();
    second.wait();
    const auto after = [&](std::int64_t events) {
        hold_device_at(events);
        operations->poll();
        const auto& running = heard.device.running;
        return text(heard.device.unfinished, " left, ", heard.device.started[0], " started, ",
                    running ? text(running->operation, ' ', running->number) : "none runs");
    };
    // Each has an event before and one after it.
    CHECK(after(0) == "2 left, 0 started, none runs");
    CHECK(after(1) == "2 left, 1 started, all_reduce 1");
    CHECK(after(2) == "1 left, 1 started, none runs");
    CHECK(after(3) == "1 left, 2 started, all_reduce 2");
    CHECK(heard.device_calls == 4);
    // As long as nothing happens nobody is called.
    operations->poll();
    CHECK(heard.device_calls == 4);
    CHECK(after(4) == "0 left, 2 started, none runs");
    CHECK(heard.lines.size() == 6);
    let_device_run();
}

TEST_CASE("The own time of a step is that without waits for communication") {
    const CleanState state;
    const cuda::Stream compute;
    cuda::StepTimer timer(compute);
    const cuda::Event finished;
    let_device_run();
    hold_device_at(0);
    // Outside a step nothing is measured.
    timer.wait(finished);
    const auto step = [&](int waits) {
        timer.begin_step();
        for (int i = 0; i < waits; ++i) {
            finished.record(compute);
            timer.wait(finished);
        }
        timer.end_step();
    };
    step(1);  // 5 events: 4 ms, 1 of them waiting
    step(3);  // 11 events: 10 ms, 3 of them waiting
    CHECK(timer.take_steps().empty());
    hold_device_at(4);
    timer.collect_if_free();
    CHECK(timer.take_steps().empty());
    hold_device_at(5);
    CHECK(timer.take_steps() == std::vector<double>{1e-3 * 3});
    hold_device_at(16);
    timer.collect_if_free();
    step(0);
    CHECK(timer.take_steps() == std::vector<double>{1e-3 * 7});
    let_device_run();
    CHECK(timer.take_steps() == std::vector<double>{1e-3 * 1});
}

TEST_CASE("A connection is an operation that ranks wait in") {
    const CleanState state;
    Heard heard;
    const auto backend = cpu::make_backend();
    const Mesh mesh = cuda::gpu_mesh(session(), {.tensor = session().size()}, {}, *backend, &heard);
    if (session().size() == 1) return;
    REQUIRE(heard.lines.size() > 3);
    CHECK(heard.lines[0] == "starts connect 0 on tp");
    CHECK(heard.lines[1] == "waits in connect 0 on tp");
    CHECK(heard.lines[2] == "has connect 0 on tp");
    CHECK(heard.lines[3] == "starts connect 0 on cp");
}

TEST_CASE("Deterministic sums keep NCCL to rings, unless the user says otherwise") {
    const auto algorithm = [] {
        const char* value = std::getenv("NCCL_ALGO");
        return std::string(value == nullptr ? "" : value);
    };
    unsetenv("NCCL_ALGO");
    cuda::set_nccl_environment(false);
    CHECK(algorithm().empty());
    // All others take their memory before memory is planned.
    CHECK(std::string(std::getenv("NCCL_RUNTIME_CONNECT")) == "0");
    cuda::set_nccl_environment(true);
    CHECK(algorithm() == "Ring");
    CHECK(std::string(std::getenv("NCCL_NVLS_ENABLE")) == "0");
    setenv("NCCL_ALGO", "Tree", 1);
    setenv("NCCL_NVLS_ENABLE", "2", 1);
    cuda::set_nccl_environment(true);
    CHECK(algorithm() == "Tree");
    CHECK(std::string(std::getenv("NCCL_NVLS_ENABLE")) == "2");
    unsetenv("NCCL_ALGO");
    unsetenv("NCCL_NVLS_ENABLE");
}

TEST_CASE("Ranks take the devices of their machine in turn") {
    const int rank = session().rank();
    const int size = session().size();
    unsetenv("GPTRAIN_SHARE_GPU");
    fake_devices() = size;
    const cuda::ChosenDevice own = cuda::choose_device(session());
    CHECK(own.index == rank);
    CHECK(own.sharing == cuda::Sharing::none);

    fake_devices() = 1;
    const Error error = error_of([] { cuda::choose_device(session()); });
    CHECK(error.code() == (size > 1 ? ExitCode::usage : ExitCode::done));
    if (size > 1)
        CHECK(std::string(error.what()).find("ranks 0 and 1 have the same GPU") !=
              std::string::npos);

    fake_devices() = 0;
    const Error none = error_of([] { cuda::choose_device(session()); });
    fake_devices() = 2;
    CHECK(none.code() == ExitCode::usage);
}

TEST_CASE("Ranks share a device through host memory, or over an NCCL that can") {
    const CleanState state;
    const bool several = session().size() > 1;
    const auto with = [](const char* value) {
        setenv("GPTRAIN_SHARE_GPU", value, 1);
        return cuda::choose_device(session()).sharing;
    };
    for (const char* name : {"NCCL_MULTI_RANK_GPU_ENABLE", "NCCL_NVLS_ENABLE", "NCCL_MAX_CTAS"})
        unsetenv(name);
    fake_devices() = 1;
    CHECK(with("1") == (several ? cuda::Sharing::mpi : cuda::Sharing::none));
    CHECK(std::getenv("NCCL_MULTI_RANK_GPU_ENABLE") == nullptr);
    setenv("NCCL_MAX_CTAS", "4", 1);  // the user's
    CHECK(with("nccl") == (several ? cuda::Sharing::nccl : cuda::Sharing::none));
    if (several) {
        CHECK(std::string(std::getenv("NCCL_MULTI_RANK_GPU_ENABLE")) == "1");
        CHECK(std::string(std::getenv("NCCL_NVLS_ENABLE")) == "0");
        CHECK(std::string(std::getenv("NCCL_MAX_CTAS")) == "4");
        fake_state().version = NCCL_VERSION(2, 28, 9);
        const Error old = error_of([&] { with("nccl"); });
        CHECK(old.code() == ExitCode::usage);
        CHECK(std::string(old.what()).find("NCCL 2.28.9 cannot connect ranks that share a GPU") !=
              std::string::npos);
    }
    CHECK(with("peer") == (several ? cuda::Sharing::peer : cuda::Sharing::none));
    // With a device for each rank nothing is shared, and any NCCL will do.
    fake_devices() = session().size();
    CHECK(with("nccl") == cuda::Sharing::none);
    CHECK(error_of([&] { with("yes"); }).code() == ExitCode::usage);
    unsetenv("GPTRAIN_SHARE_GPU");
    unsetenv("NCCL_MAX_CTAS");
}

}  // namespace gptrain::test
