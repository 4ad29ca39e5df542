// Slow ranks are found by comparing the times of ranks with the same work.
#include "watch/stragglers.h"

#include "catch.h"

namespace gptrain::test {

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

TEST_CASE("a rank a fifth slower than the middle one of its stage is found") {
    const MeshShape mesh = {.data = 4};
    const std::vector<double> even = {1.0, 1.1, 0.9, 1.19};
    CHECK(find_stragglers(even, mesh).empty());
    const std::vector<double> slow = {1.0, 1.1, 0.9, 1.21};
    const auto found = find_stragglers(slow, mesh);
    REQUIRE(found.size() == 1);
    CHECK(found[0].rank == 3);
    CHECK(found[0].seconds == 1.21);
    CHECK(found[0].others == 1.0);
}

TEST_CASE("of two ranks the slower is found") {
    const auto found = find_stragglers(std::vector<double>{1.3, 1.0}, {.data = 2});
    REQUIRE(found.size() == 1);
    CHECK(found[0].rank == 0);
}

TEST_CASE("stages may have different work") {
    const MeshShape mesh = {.data = 3, .pipeline = 2};
    const std::vector<double> times = {1, 1, 1, 2, 2, 2.5};
    const auto found = find_stragglers(times, mesh);
    REQUIRE(found.size() == 1);
    CHECK(found[0].rank == 5);
    CHECK(find_stragglers(std::vector<double>{1, 5}, {.pipeline = 2}).empty());
}

}  // namespace gptrain::test
