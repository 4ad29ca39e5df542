// Messages between the GPUs of a machine that the tests of all communicators leave out: longer than
// a mailbox, between ranks of different speed, and to ranks that are lost.
#include <chrono>
#include <cmath>
#include <thread>

#include "catch.h"
#include "comm/peer_limits.h"
#include "ranks.h"

namespace gptrain::test {
namespace {

/// More pieces than a mailbox has room for, and a part of one.
constexpr std::int64_t many_pieces = (2 * pieces_on_way + 1) * piece_bytes + 64;

double value_of(int rank, std::int64_t i) {
    return static_cast<double>((i * 7 + rank * 31) % 251);
}

}  // namespace

TEST_CASE("Messages of many pieces arrive whole between ranks of different speed") {
    const auto backend = make_backend();
    for (const Way& way : ways()) {
        INFO(way.name);
        const auto all = way.connect(*backend);
        const int rank = all->rank();
        const int next = (rank + 1) % all->size();
        const int before = (rank + all->size() - 1) % all->size();
        const Array own(*backend, DType::u8, {many_pieces});
        const Array other(*backend, DType::u8, {many_pieces});
        for (int round = 0; round < 2; ++round) {
            own.put([&](std::int64_t i) { return value_of(rank + round, i); });
            // Odd ranks come late.
            if (rank % 2 != 0) std::this_thread::sleep_for(std::chrono::milliseconds(30));
            all->send_recv(*own, next, *other, before).wait();
            const std::vector<double> values = other.values();
            bool same = true;
            for (std::int64_t i = 0; i < many_pieces; ++i)
                same = same && values[static_cast<std::size_t>(i)] == value_of(before + round, i);
            CHECK(same);
        }
    }
}

TEST_CASE("Rows that have a slot arrive in every piece of a message") {
    // Three rows and a half fit into a piece.
    constexpr std::int64_t width = piece_bytes * 2 / 7;
    constexpr std::int64_t rows = 8;
    const auto backend = make_backend();
    for (const Way& way : ways()) {
        INFO(way.name);
        const auto all = way.connect(*backend);
        if (all->size() != 2) continue;
        const Array to(*backend, DType::u8, {2, rows, width});
        const Array from(*backend, DType::u8, {2, rows, width});
        const Array slots(*backend, DType::i32, {2, rows});
        const auto is_sent = [](std::int64_t row) { return row % 5 < 2; };
        from.put([&](std::int64_t i) { return value_of(all->rank(), i); });
        slots.put([&](std::int64_t i) { return is_sent(i % rows) ? 0 : -1; });
        all->all_to_all_rows(*to, *from, *slots).wait();
        const std::vector<double> values = to.values();
        const int other = 1 - all->rank();
        bool same = true;
        for (std::int64_t i = 0; i < rows * width; ++i) {
            const double value = values[static_cast<std::size_t>(other * rows * width + i)];
            if (is_sent(i / width))
                same = same && value == value_of(other, all->rank() * rows * width + i);
        }
        CHECK(same);
    }
}

TEST_CASE("Sums have the bits of those over MPI") {
    const auto backend = make_backend();
    MpiCommunicator over_mpi(session(), {.color = 0, .key = session().rank()}, *backend);
    for (const Way& way : ways()) {
        INFO(way.name);
        const auto all = way.connect(*backend);
        for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
            const Shape shape = {6 * all->size(), 35};
            const Array x(*backend, dtype, shape);
            const Array expected(*backend, dtype, shape);
            const auto number = [&](std::int64_t i) {
                return std::sin(static_cast<double>(i * all->size() + all->rank())) * 1e3;
            };
            x.put(number);
            expected.put(number);
            all->all_reduce(*x, Reduce::sum).wait();
            backend->synchronize();
            over_mpi.all_reduce(*expected, Reduce::sum).wait();
            CHECK(x.values() == expected.values());
            // Along a dim other than the first, a part is many runs.
            const Array part(*backend, dtype, {6, 35});
            const Array expected_part(*backend, dtype, {6, 35});
            const Tensor wide = x->view({6, 35 * all->size()});
            all->reduce_scatter(*part, wide, 1).wait();
            backend->synchronize();
            over_mpi.reduce_scatter(*expected_part, wide, 1).wait();
            CHECK(part.values() == expected_part.values());
        }
    }
}

TEST_CASE("A gather sends what computation before it has left, and nothing later") {
    const auto backend = make_backend();
    for (const Way& way : ways()) {
        INFO(way.name);
        const auto all = way.connect(*backend);
        const Array own(*backend, DType::f32, {1024});
        const Array whole(*backend, DType::f32, {1024 * all->size()});
        backend->run(Fill{.x = *own, .value = static_cast<float>(all->rank() + 3)});
        all->all_gather(*whole, *own, 0).wait();
        // Computation after the wait may overwrite what was sent.
        backend->run(Fill{.x = *own, .value = -1});
        const std::vector<double> values = whole.values();
        for (int rank = 0; rank < all->size(); ++rank)
            CHECK(values[static_cast<std::size_t>(1024 * rank + 5)] == rank + 3);
    }
}

TEST_CASE("A rank that fails ends its messages, and those of the ranks that wait for it") {
    if (session().size() == 1) return;
    using Clock = std::chrono::steady_clock;
    const auto backend = make_backend();
    for (const Way& way : ways()) {
        INFO(way.name);
        const Array x(*backend, DType::f32, {1024});
        x.put([](std::int64_t i) { return static_cast<double>(i); });
        Clock::time_point failed;
        const bool comes = session().rank() + 1 < session().size();
        const auto work = [&] {
            const auto all = way.connect(*backend);
            Pending pending;
            // The last rank never comes, so the sum of the others cannot end.
            if (comes) pending = all->all_reduce(*x, Reduce::sum);
            session().max(0);
            failed = Clock::now();
            if (!comes) fail(ExitCode::io, "disk full");
            // The next operation reports that a rank has aborted.
            while (Clock::now() - failed < std::chrono::seconds(5)) {
                std::this_thread::sleep_for(std::chrono::milliseconds(1));
                all->all_reduce(*x, Reduce::sum).wait();
            }
        };
        try {
            work();
            FAIL("no error");
        } catch (const Error& error) {
            CHECK(error.code() == (comes ? ExitCode::hang : ExitCode::io));
        }
        backend->synchronize();
        CHECK(std::chrono::duration<double>(Clock::now() - failed).count() < 5);
        // The devices are free again.
        session().max(0);
        const auto again = way.connect(*backend);
        x.put([](std::int64_t) { return 1; });
        again->all_reduce(*x, Reduce::sum).wait();
        CHECK(x.values() == std::vector<double>(1024, session().size()));
    }
}

}  // namespace gptrain::test
