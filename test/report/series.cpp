#include "report/series.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "catch.h"

namespace gptrain {
namespace {

constexpr double unknown = std::numeric_limits<double>::quiet_NaN();

TEST_CASE("a thinned curve is short and keeps every peak") {
    constexpr int count = 100'000;
    constexpr int columns = 50;
    std::vector<Point> points;
    for (int i = 0; i < count; ++i)
        points.push_back({1.0 * i, std::sin(0.001 * i)});
    points[12'345].value = 40;   // a spike of one step
    points[77'777].value = -40;  // and one down
    const std::vector<Point> thin = thinned(points, {0, count - 1}, columns);
    CHECK(thin.size() <= 4 * columns + 4);
    CHECK(std::is_sorted(thin.begin(), thin.end(),
                         [](const Point& a, const Point& b) { return a.step < b.step; }));
    const auto has = [&](double step, double value) {
        return std::any_of(thin.begin(), thin.end(), [&](const Point& point) {
            return point.step == step && point.value == value;
        });
    };
    CHECK(has(12'345, 40));
    CHECK(has(77'777, -40));
    CHECK(has(0, 0));
    CHECK(has(count - 1, points.back().value));
}

TEST_CASE("a curve with fewer points than columns stays as it is, with its gaps") {
    const std::vector<Point> points = {{1, 5}, {2, unknown}, {3, 4}, {4, 6}};
    const std::vector<Point> thin = thinned(points, {1, 4}, 100);
    REQUIRE(thin.size() == points.size());
    for (std::size_t i = 0; i < points.size(); ++i) {
        CHECK(thin[i].step == points[i].step);
        CHECK((thin[i].value == points[i].value ||
               (std::isnan(thin[i].value) && std::isnan(points[i].value))));
    }
}

TEST_CASE("a single step is its own curve") {
    const std::vector<Point> points = {{7, 5}};
    CHECK(thinned(points, {7, 7}, 100).size() == 1);
}

TEST_CASE("a range ignores what is not finite") {
    Range range;
    CHECK(range.empty());
    range.add(std::numeric_limits<double>::infinity());
    range.add(unknown);
    CHECK(range.empty());
    range.add(3);
    range.add(-2);
    CHECK(range.low == -2);
    CHECK(range.high == 3);
}

}  // namespace
}  // namespace gptrain
