// A rank that fails while messages are in flight between devices.
#include <chrono>
#include <thread>

#include "catch.h"
#include "ranks.h"

namespace gptrain::test {
namespace {

using Clock = std::chrono::steady_clock;

void check_that_failing_ends_messages(const Way& way, Backend& backend) {
    const Array x(backend, DType::f32, {1024});
    x.put([](std::int64_t i) { return static_cast<double>(i); });
    Clock::time_point failed;
    const auto work = [&] {
        const auto all = way.connect(backend);
        Pending pending;
        // The last rank never comes, so the sum of the others cannot end.
        if (session().rank() + 1 < session().size()) pending = all->all_reduce(*x, Reduce::sum);
        // By now it waits on the device.
        std::this_thread::sleep_for(std::chrono::milliseconds(300));
        failed = Clock::now();
        fail(ExitCode::io, "disk full");
    };
    CHECK_THROWS_AS(work(), Error);
    backend.synchronize();
    CHECK(std::chrono::duration<double>(Clock::now() - failed).count() < 10);
    // The device is free again.
    const auto again = way.connect(backend);
    x.put([](std::int64_t) { return 1; });
    again->all_reduce(*x, Reduce::sum).wait();
    CHECK(x.values() == std::vector<double>(1024, session().size()));
}

}  // namespace

TEST_CASE("A rank that fails ends its messages in flight") {
    const auto backend = make_backend();
    for (const Way& way : ways()) {
        INFO(way.name);
        if (way.name != "staged") check_that_failing_ends_messages(way, *backend);
    }
}

}  // namespace gptrain::test
