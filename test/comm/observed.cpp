// The operations of a communicator, as listeners learn of them.
#include <functional>
#include <string>
#include <vector>

#include "base/text.h"
#include "catch.h"
#include "comm/comm_totals.h"
#include "comm/mpi_mesh.h"
#include "cpu/cpu_backend.h"
#include "ranks.h"

namespace gptrain::test {
namespace {

/// Lines such as "all_reduce 1 of 0 dp started", and the bytes that calls reported.
class Notes final : public CommListener {
public:
    void on_started(const CommCall& call) override {
        told_bytes += call.bytes;
        most_bytes = call.most_bytes;
        note(call, "started");
    }
    void on_issued(const CommCall& call) override { note(call, "issued"); }
    void on_waiting(const CommCall& call) override { note(call, "waiting"); }
    void on_finished(const CommCall& call) override { note(call, "finished"); }

    std::vector<std::string> lines;
    std::int64_t told_bytes = 0;
    std::int64_t most_bytes = 0;  ///< of the last call

private:
    void note(const CommCall& call, std::string_view what) {
        lines.push_back(text(call.operation, " ", call.number, " of ", call.communicator, " ",
                             name_of(call.axis), " ", what));
    }
};

/// Makes MpiCommunicators of all ranks and remembers the last one.
struct Maker {
    Backend& backend;
    const MpiCommunicator* last = nullptr;

    std::unique_ptr<Communicator> operator()(const RankGroup& group) {
        auto made = std::make_unique<MpiCommunicator>(
            session(), MpiGroup{.color = 0, .key = group.rank}, backend);
        last = made.get();
        return made;
    }
};

RankGroup everyone() {
    return {.axis = Axis::dp, .rank = session().rank(), .size = session().size()};
}

}  // namespace

TEST_CASE("Listeners are told of every operation in order") {
    if (session().size() == 1) return;
    const auto backend = cpu::make_backend();
    Notes notes;
    Notes same;
    CommListeners both;
    both.add(notes);
    both.add(same);
    const CommunicatorFactory make = observed(Maker{*backend}, both);
    const auto unused = make(everyone());
    // A group of one rank is not reported, but has a number: other ranks may be in larger groups.
    const auto alone = make({.rank = session().rank()});
    const auto comm = make(everyone());
    const Array x(*backend, DType::f32, {8});
    Pending first = comm->all_reduce(*x, Reduce::sum);
    { const Pending second = comm->broadcast(*x, 0); }
    first.wait();
    comm->barrier();
    const std::vector<std::string> expected = {
        "all_reduce 1 of 2 dp started", "all_reduce 1 of 2 dp issued",
        "broadcast 2 of 2 dp started",  "broadcast 2 of 2 dp issued",
        "broadcast 2 of 2 dp waiting",  "broadcast 2 of 2 dp finished",
        "all_reduce 1 of 2 dp waiting", "all_reduce 1 of 2 dp finished",
        "barrier 3 of 2 dp started",    "barrier 3 of 2 dp waiting",
        "barrier 3 of 2 dp finished",
    };
    CHECK(notes.lines == expected);
    CHECK(same.lines == expected);
}

TEST_CASE("A rank alone has nothing to tell") {
    Notes notes;
    const CommunicatorFactory make =
        observed([](const RankGroup&) { return std::make_unique<OneRankCommunicator>(); }, notes);
    const auto backend = cpu::make_backend();
    const Array x(*backend, DType::f32, {8});
    const auto alone = make({});
    alone->all_reduce(*x, Reduce::sum).wait();
    alone->barrier();
    CHECK(notes.lines.empty());
}

TEST_CASE("The bytes that ranks hand to MPI are those that are told, the least possible") {
    const int ranks = session().size();
    if (ranks == 1) return;
    const auto backend = cpu::make_backend();
    Notes notes;
    Maker maker{*backend};
    const auto comm = observed(std::ref(maker), notes)(everyone());
    constexpr std::int64_t elements = 840;  // parts of equal size for up to 8 ranks
    const std::int64_t bytes = elements * 4;
    const Array whole(*backend, DType::f32, {elements});
    const Array other(*backend, DType::f32, {elements});
    const Tensor part = other->slice(0, 0, elements / ranks);
    const int next = (comm->rank() + 1) % ranks;
    const int before = (comm->rank() + ranks - 1) % ranks;
    std::int64_t handed = 0;
    std::int64_t told = 0;
    /// Sums over all ranks, for one operation.
    const auto check = [&](Pending pending, std::int64_t least) {
        pending.wait();
        std::int64_t sums[2] = {};
        const std::string own =
            text(maker.last->sent_bytes() - handed, " ", notes.told_bytes - told);
        for (const std::string& one : session().exchange(own)) {
            sums[0] += std::stoll(one);
            sums[1] += std::stoll(one.substr(one.find(' ')));
        }
        handed = maker.last->sent_bytes();
        told = notes.told_bytes;
        CAPTURE(notes.lines.back());
        CHECK(sums[0] == least);
        return sums[1] == least;
    };
    CHECK(check(comm->all_reduce(*whole, Reduce::sum), 2 * (ranks - 1) * bytes));
    CHECK(check(comm->reduce_scatter(part, *whole, 0), (ranks - 1) * bytes));
    CHECK(check(comm->all_gather(*whole, part, 0), (ranks - 1) * bytes));
    CHECK(check(comm->all_to_all(*whole, *other), (ranks - 1) * bytes));
    CHECK(check(comm->send_recv(*whole, next, *other, before), ranks * bytes));
    const int rank = comm->rank();
    CHECK(check(rank == 0   ? comm->send(*whole, 1)
                : rank == 1 ? comm->recv(*other, 0)
                            : Pending(),
                bytes));
    CHECK(check(comm->broadcast(*whole, 0), (ranks - 1) * bytes));
    CHECK(notes.most_bytes == bytes);
}

}  // namespace gptrain::test
