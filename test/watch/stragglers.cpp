// Slow ranks are found by comparing the times of ranks with the same work.
#include "watch/stragglers.h"

#include "catch.h"

namespace gptrain::test {
namespace {

std::vector<Straggler> stragglers(const std::vector<double>& seconds, const MeshShape& mesh) {
    std::vector<RankWork> works;
    for (const double time : seconds)
        works.push_back({.seconds = time, .microbatches = 50});
    return find_stragglers(works, mesh);
}

}  // namespace

TEST_CASE("the median of the last 50 values, once there are so many") {
    RunningMedian median;
    for (int i = 0; i < 49; ++i)
        median.add(1);
    CHECK_FALSE(median.value());
    median.add(1);
    CHECK(median.value() == 1);
    // A few long steps do not count; from the 26th on they are the norm.
    for (int i = 0; i < 25; ++i)
        median.add(9);
    CHECK(median.value() == 1);
    median.add(9);
    CHECK(median.value() == 9);
}

namespace {

class FakeTimer final : public DeviceTimer {
public:
    void begin_step() override { ++begun; }
    void end_step() override { ++ended; }
    std::vector<double> take_steps() override { return {}; }
    int begun = 0;
    int ended = 0;
};

}  // namespace

TEST_CASE("a device measures its steps itself") {
    StragglerWatch watch;
    CHECK_FALSE(watch.times_device());
    FakeTimer timer;
    CommListeners listeners;
    listeners.add(watch);
    listeners.on_timer(timer);
    CHECK(watch.times_device());
    watch.begin_step(4);
    watch.begin_step(4);
    watch.end_step();
    CHECK(timer.begun == 2);
    CHECK(timer.ended == 1);
}

TEST_CASE("a rank a fifth slower than the middle one of its stage is found") {
    const MeshShape mesh = {.data = 4};
    const std::vector<double> even = {1.0, 1.1, 0.9, 1.19};
    CHECK(stragglers(even, mesh).empty());
    const std::vector<double> slow = {1.0, 1.1, 0.9, 1.21};
    const auto found = stragglers(slow, mesh);
    REQUIRE(found.size() == 1);
    CHECK(found[0].rank == 3);
    CHECK(found[0].seconds == 1.21);
    CHECK(found[0].others == 1.0);
}

TEST_CASE("of two ranks the slower is found") {
    const auto found = stragglers({1.3, 1.0}, {.data = 2});
    REQUIRE(found.size() == 1);
    CHECK(found[0].rank == 0);
}

TEST_CASE("stages may have different work") {
    const MeshShape mesh = {.data = 3, .pipeline = 2};
    const std::vector<double> times = {1, 1, 1, 2, 2, 2.5};
    const auto found = stragglers(times, mesh);
    REQUIRE(found.size() == 1);
    CHECK(found[0].rank == 5);
    CHECK(stragglers({1, 5}, {.pipeline = 2}).empty());
}

TEST_CASE("data ranks with more microbatches are not slow") {
    const MeshShape mesh = {.data = 5};
    // 7 microbatches a step: two ranks have 2, three have 1.
    std::vector<RankWork> works = {{2, 100}, {2.1, 100}, {1, 50}, {1.1, 50}, {1.1, 50}};
    CHECK(find_stragglers(works, mesh).empty());
    works[1].seconds = 2.5;
    works[3].seconds = 1.5;
    const auto found = find_stragglers(works, mesh);
    REQUIRE(found.size() == 2);
    CHECK(found[0].rank == 1);
    CHECK(found[0].others == 2);
    CHECK(found[1].rank == 3);
    CHECK(found[1].others == 1.1);
}

}  // namespace gptrain::test
