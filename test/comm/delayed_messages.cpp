// The communicator that shows when a buffer is used under a message.
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "catch.h"
#include "comm/mpi_mesh.h"
#include "cpu/cpu_backend.h"
#include "delayed.h"
#include "ranks.h"

namespace gptrain::test {
namespace {

/// Communicators of all ranks whose messages start then.
struct Late {
    explicit Late(Start when)
        : make(delayed(mpi_communicators(session(), *backend), when)), first(connect()) {}
    std::unique_ptr<Communicator> connect() const {
        return make({.axis = Axis::cp, .rank = session().rank(), .size = session().size()});
    }

    std::unique_ptr<Backend> backend = cpu::make_backend();
    CommunicatorFactory make;
    std::unique_ptr<Communicator> first;
    Array x{*backend, DType::f32, {4}};
    Array y{*backend, DType::f32, {4}};
};

std::string error_of(Pending& pending) {
    try {
        pending.wait();
    } catch (const Error& error) {
        CHECK(error.code() == ExitCode::bug);
        return error.what();
    }
    return "no error";
}

}  // namespace

TEST_CASE("Memory that a message writes holds no numbers until it is waited for") {
    if (session().size() == 1) return;
    const Late late(GENERATE(Start::at_wait, Start::at_issue, Start::at_random));
    late.x.put([](std::int64_t) { return 1; });
    Pending sum = late.first->all_reduce(*late.x, Reduce::sum);
    for (const double value : late.x.values())
        CHECK(std::isnan(value));
    sum.wait();
    CHECK(late.x.values() == std::vector<double>(4, session().size()));
    sum = late.first->all_reduce(*late.x, Reduce::sum);
    late.x.put([](std::int64_t) { return 2; });
    CHECK(error_of(sum) == text("all_reduce on cp (rank ", session().rank(), " of ",
                                session().size(),
                                "): memory that it writes was written before its wait"));
}

TEST_CASE("A message reads at its issue, or as late as possible, memory that nobody may write") {
    if (session().size() == 1) return;
    const Start when = GENERATE(Start::at_wait, Start::at_issue);
    const Late late(when);
    const int rank = session().rank();
    const int next = (rank + 1) % session().size();
    const int previous = (rank + session().size() - 1) % session().size();
    late.x.put([](std::int64_t) { return 1; });
    current_action().on_reached({.kind = ActionKind::forward, .microbatch = 3});
    Pending pending = late.first->send_recv(*late.x, next, *late.y, previous);
    if (rank == 0) late.x.put([](std::int64_t) { return 2; });
    current_action().on_reached({.kind = ActionKind::backward, .microbatch = 0, .chunk = 1});
    const std::string fault = error_of(pending);
    current_action().on_step_end();
    CHECK(fault == (rank > 0 ? "no error"
                             : text("send_recv on cp (rank 0 of ", session().size(),
                                    ", issued in F3): memory that it reads was written before its "
                                    "wait in BW0.1")));
    if (rank == 1) CHECK(late.y.values() == std::vector<double>(4, when == Start::at_wait ? 2 : 1));
}

TEST_CASE("A message that is not waited for holds up no other rank") {
    if (session().size() < 2) return;
    const Late late(GENERATE(Start::at_wait, Start::at_issue, Start::at_random));
    const auto second = late.connect();
    late.x.put([](std::int64_t i) { return session().rank() + i; });
    late.y.put([](std::int64_t) { return 1; });
    Pending passed;
    if (session().rank() == 0) passed = late.first->send(*late.x, 1);
    if (session().rank() == 1) passed = late.first->recv(*late.x, 0);
    if (session().rank() == 1) passed.wait();
    second->all_reduce(*late.y, Reduce::sum).wait();
    second->barrier();
    passed.wait();
    CHECK(late.y.values() == std::vector<double>(4, session().size()));
    if (session().rank() == 1) CHECK(late.x.values() == std::vector<double>{0, 1, 2, 3});
}

}  // namespace gptrain::test
