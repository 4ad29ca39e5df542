// Properties of the communicator over MPI alone.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <thread>
#include <utility>
#include <vector>

#include "catch.h"
#include "comm/mpi_call.h"
#include "comm/mpi_mesh.h"
#include "cpu/cpu_backend.h"
#include "ranks.h"
#include "support/host_backend.h"

namespace gptrain::test {

TEST_CASE("Sums are made in the order of ranks, whatever the number of elements") {
    if (!session().running()) return;
    const auto backend = cpu::make_backend();
    MpiCommunicator all(session(), {.color = 0, .key = session().rank()}, *backend);
    const auto value = [](int rank, std::int64_t i) {
        return std::sin(static_cast<float>(i + 1) * static_cast<float>(rank + 3)) *
               std::exp2(static_cast<float>((i + rank * 7) % 20));
    };
    for (const std::int64_t elements : {5, 10007}) {
        const Array x(*backend, DType::f32, {elements});
        const Array whole(*backend, DType::f32, {elements, all.size()});
        const Array part(*backend, DType::f32, {elements, 1});
        x.put([&](std::int64_t i) { return value(all.rank(), i); });
        whole.put([&](std::int64_t i) { return value(all.rank(), i / all.size()); });
        all.all_reduce(*x, Reduce::sum).wait();
        all.reduce_scatter(*part, *whole, 1).wait();
        std::vector<double> expected;
        for (std::int64_t i = 0; i < elements; ++i) {
            float sum = value(0, i);
            for (int rank = 1; rank < all.size(); ++rank)
                sum += value(rank, i);
            expected.push_back(sum);
        }
        REQUIRE(x.values() == expected);
        REQUIRE(part.values() == expected);
    }
}

TEST_CASE("Large tensors, and memory that is kept") {
    if (!session().running()) return;
    const auto backend = cpu::make_backend();
    MpiCommunicator all(session(), {.color = 0, .key = session().rank()}, *backend);
    constexpr std::int64_t elements = 3'000'001;
    const Array x(*backend, DType::f32, {elements});
    float* data = x->as<float>();
    std::int64_t held = 0;
    for (int pass = 0; pass < 3; ++pass) {
        for (std::int64_t i = 0; i < elements; ++i)
            data[i] = static_cast<float>(i % 1000 + all.rank());
        all.all_reduce(*x, Reduce::sum).wait();
        const int ranks = all.size();
        std::int64_t wrong = 0;
        for (std::int64_t i = 0; i < elements; ++i) {
            wrong += data[i] !=
                     static_cast<float>(i % 1000 * ranks + std::int64_t{ranks} * (ranks - 1) / 2);
        }
        CHECK(wrong == 0);
        if (pass == 0) held = all.held_bytes();
        CHECK(all.held_bytes() == held);
    }
    CHECK(held <= elements * 4);
}

namespace {

/// A device that copies only when somebody waits for it.
class LateBackend final : public HostBackend {
public:
    LateBackend() { host_memory = false; }
    void copy(const Tensor& to, const Tensor& from) override { issued_.emplace_back(to, from); }
    void synchronize() override {
        for (const auto& [to, from] : std::exchange(issued_, {}))
            HostBackend::copy(to, from);
    }

private:
    std::vector<std::pair<Tensor, Tensor>> issued_;
};

}  // namespace

TEST_CASE("Staged messages have what was computed before, and what is computed next sees them") {
    if (!session().running()) return;
    LateBackend backend;
    MpiCommunicator all(session(), {.color = 0, .key = session().rank()}, backend,
                        {.staged = true});
    const Array computed(backend, DType::f32, {8});
    const Array x(backend, DType::f32, {8});
    const Array y(backend, DType::f32, {8});
    computed.put([&](std::int64_t) { return all.rank() + 1; });
    y.put([&](std::int64_t) { return all.rank() == 0 ? 10 : 0; });
    backend.copy(*x, *computed);
    all.broadcast(*x, 0).wait();
    // The memory of the first message serves the second one.
    all.broadcast(*y, 0).wait();
    CHECK(x.values() == std::vector<double>(8, 1));
    CHECK(y.values() == std::vector<double>(8, 10));
}

TEST_CASE("Ranks that are not connected for an operation refuse it") {
    if (session().size() == 1) return;
    const auto backend = cpu::make_backend();
    const Array x(*backend, DType::f32, {session().size()});
    const auto refuses = [&](const Traffic& traffic, const auto& operation) {
        const auto all = mpi_communicators(session(), *backend)({.axis = Axis::dp,
                                                                 .rank = session().rank(),
                                                                 .size = session().size(),
                                                                 .traffic = traffic});
        try {
            operation(*all).wait();
        } catch (const Error& error) {
            return std::string(error.what()).find("whose ranks are not connected for it") !=
                   std::string::npos;
        }
        return false;
    };
    const int self = session().rank();
    const auto sum = [&](Communicator& all) { return all.all_reduce(*x, Reduce::sum); };
    const auto exchange = [&](Communicator& all) { return all.all_to_all(*x, *x); };
    const auto round = [&](Communicator& all) { return all.send_recv(*x, self, *x, self); };
    const auto message = [&](Communicator& all) { return all.send(*x, self); };
    CHECK(refuses({.collectives = false}, sum));
    CHECK(refuses({.all_pairs = false}, exchange));
    CHECK(refuses({.ring = false}, round));
    CHECK(refuses({.one_way = false}, message));
    CHECK_FALSE(refuses({.ring = false, .all_pairs = false, .one_way = false}, sum));
}

TEST_CASE("A fault of MPI from outside the program is a lost rank, any other one a bug") {
    if (!session().running()) return;
    const auto code_of = [](int status) {
        try {
            check_mpi(status, "MPI_Test");
        } catch (const Error& error) {
            CHECK(std::string(error.what()).starts_with("MPI: MPI_Test: "));
            return error.code();
        }
        return ExitCode::done;
    };
    CHECK(code_of(MPI_SUCCESS) == ExitCode::done);
    CHECK(code_of(MPI_ERR_OTHER) == ExitCode::hang);
    CHECK(code_of(MPI_ERR_INTERN) == ExitCode::hang);
    CHECK(code_of(MPI_ERR_TRUNCATE) == ExitCode::bug);
    CHECK(code_of(MPI_ERR_RANK) == ExitCode::bug);
}

TEST_CASE("Operations in progress do not wait for each other") {
    if (!session().running()) return;
    const auto backend = cpu::make_backend();
    const MpiGroup everyone = {.color = 0, .key = session().rank()};
    MpiCommunicator first(session(), everyone, *backend, {.name = "first"});
    MpiCommunicator second(session(), everyone, *backend, {.name = "second", .staged = true});
    constexpr std::int64_t elements = 100'000;
    std::vector<Array> arrays;
    for (int i = 0; i < 6; ++i) {
        arrays.emplace_back(*backend, DType::f32, Shape{elements});
        arrays.back().put([&](std::int64_t) { return first.rank() + i; });
    }
    // The other ranks now wait, every second one in reverse order, for operations whose second
    // round cannot have begun. No operation may block another one.
    if (first.rank() == first.size() - 1)
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
    std::vector<Pending> pending;
    for (std::size_t i = 0; i < arrays.size(); ++i) {
        MpiCommunicator& comm = i % 2 == 0 ? first : second;
        pending.push_back(comm.all_reduce(*arrays[i], Reduce::sum));
    }
    for (std::size_t i = 0; i < pending.size(); ++i)
        pending[first.rank() % 2 == 0 ? i : pending.size() - 1 - i].wait();
    {
        // A dropped operation is waited for.
        const Array other(*backend, DType::f32, {elements});
        const Pending dropped = first.broadcast(*other, 0);
    }
    const int ranks = first.size();
    for (std::size_t i = 0; i < arrays.size(); ++i) {
        const double expected = ranks * (ranks - 1) / 2 + static_cast<int>(i) * ranks;
        const std::vector<double> values = arrays[i].values();
        CHECK(std::count(values.begin(), values.end(), expected) == elements);
    }
}

TEST_CASE("A rank that waits for long leaves its core to others") {
    if (session().size() != 2) return;  // with more, the test is about the machine's load
    const auto backend = cpu::make_backend();
    MpiCommunicator both(session(), {.color = 0, .key = session().rank()}, *backend, {});
    const auto cpu_seconds = [] {
        timespec time{};
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
        return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
    };
    constexpr std::chrono::milliseconds late{400};
    both.barrier();
    const double before = cpu_seconds();
    if (both.rank() == 0) std::this_thread::sleep_for(late);
    both.barrier();
    CHECK(cpu_seconds() - before < 0.2);
}

}  // namespace gptrain::test
