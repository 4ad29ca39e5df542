// Streams that are late: the events of the communicator over NCCL keep data in order.
#include <vector>

#include "base/at.h"
#include "catch.h"
#include "nccl_rig.h"

namespace gptrain::test {
namespace {

/// A communicator of all ranks on a device some of whose streams are late.
struct LateRig {
    explicit LateRig(Pace late) {
        pace() = late;
        all = connect_all(backend, compute);
    }

    CleanState state;
    cuda::Stream compute;
    StreamBackend backend{compute};
    std::unique_ptr<Communicator> all;
};

std::vector<double> threes(double value) {
    return std::vector<double>(3, value);
}

}  // namespace

TEST_CASE("A message reads what was computed before it, and computation after it what it wrote") {
    LateRig rig(GENERATE(Pace::messages_late, Pace::computation_late));
    const Array ones(rig.backend, DType::f32, {3});
    const Array x(rig.backend, DType::f32, {3});
    const Array sum(rig.backend, DType::f32, {3});
    ones.put([](std::int64_t) { return 1; });
    x.put([](std::int64_t) { return 0; });
    rig.backend.copy(*x, *ones);
    rig.all->all_reduce(*x, Reduce::sum).wait();
    rig.backend.copy(*sum, *x);
    rig.backend.copy(*x, *ones);
    CHECK(sum.values() == threes(session().size()));
    CHECK(x.values() == threes(1));
}

TEST_CASE("Messages in flight may be waited for in any order") {
    LateRig rig(GENERATE(Pace::messages_late, Pace::computation_late));
    constexpr int messages = 6;
    std::vector<Array> sums;
    std::vector<Array> sources;
    for (int i = 0; i < messages; ++i) {
        sums.emplace_back(rig.backend, DType::f32, Shape{3});
        sources.emplace_back(rig.backend, DType::f32, Shape{3});
        sources.back().put([&](std::int64_t) { return i + 1; });
    }
    // Twice, so that events are used again.
    for (int pass = 0; pass < 2; ++pass) {
        std::vector<Pending> pending;
        for (int i = 0; i < messages; ++i) {
            rig.backend.copy(*at(sums, i), *at(sources, i));
            pending.push_back(rig.all->all_reduce(*at(sums, i), Reduce::sum));
        }
        for (int i = messages - 1; i >= 0; --i) {
            at(pending, i).wait();
            const Array seen(rig.backend, DType::f32, {3});
            rig.backend.copy(*seen, *at(sums, i));
            CHECK(seen.values() == threes((i + 1) * session().size()));
        }
    }
}

}  // namespace gptrain::test
