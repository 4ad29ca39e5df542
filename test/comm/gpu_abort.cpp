// A rank that fails while messages are in flight, over NCCL.
#include <algorithm>
#include <chrono>
#include <thread>

#include "catch.h"
#include "ranks.h"

namespace gptrain::test {

TEST_CASE("A rank that fails ends its messages in flight") {
    const auto all_ways = ways();
    const auto nccl = std::find_if(all_ways.begin(), all_ways.end(),
                                   [](const Way& way) { return way.name == "NCCL"; });
    if (nccl == all_ways.end()) return;
    using Clock = std::chrono::steady_clock;
    const auto backend = make_backend();
    const Array x(*backend, DType::f32, {1024});
    x.put([](std::int64_t i) { return static_cast<double>(i); });
    Clock::time_point failed;
    const auto work = [&] {
        const auto all = nccl->connect(*backend);
        Pending pending;
        // The last rank never comes, so the sum of the others cannot end.
        if (session().rank() + 1 < session().size()) pending = all->all_reduce(*x, Reduce::sum);
        // By now it spins on the device.
        std::this_thread::sleep_for(std::chrono::milliseconds(300));
        failed = Clock::now();
        fail(ExitCode::io, "disk full");
    };
    CHECK_THROWS_AS(work(), Error);
    backend->synchronize();
    CHECK(std::chrono::duration<double>(Clock::now() - failed).count() < 10);
    // The device is free again.
    const auto again = nccl->connect(*backend);
    x.put([](std::int64_t) { return 1; });
    again->all_reduce(*x, Reduce::sum).wait();
    CHECK(x.values() == std::vector<double>(1024, session().size()));
}

}  // namespace gptrain::test
