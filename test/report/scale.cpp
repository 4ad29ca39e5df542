#include "report/scale.h"

#include <limits>

#include "catch.h"

namespace gptrain {
namespace {

std::string labels(const std::vector<Tick>& ticks) {
    std::string out;
    for (const Tick& tick : ticks)
        out += (out.empty() ? "" : " ") + tick.label;
    return out;
}

TEST_CASE("marks are round and labels short") {
    CHECK(labels(Scale({0, 10}, false).ticks(5)) == "0 2 4 6 8 10");
    CHECK(labels(Scale({3.9, 6.9}, false).ticks(7)) == "4.0 4.5 5.0 5.5 6.0 6.5");
    CHECK(labels(Scale({0, 3.5e-4}, false).ticks(3)) == "0 2e-4");
    CHECK(labels(Scale({0, 40000}, false).ticks(4)) == "0 10k 20k 30k 40k");
    CHECK(labels(Scale({0, 2}, false).ticks(5, 1)) == "0 1 2");
    CHECK(labels(Scale({0.5, 300}, true).ticks(5)) == "1 10 100");
}

TEST_CASE("a value's place is from 0 at the low end to 1 at the high one") {
    const Scale linear({2, 4}, false);
    CHECK(linear.share(2) == 0);
    CHECK(linear.share(3) == 0.5);
    CHECK(linear.share(4) == 1);
    CHECK(Scale({1, 100}, true).share(10) == Approx(0.5));
}

TEST_CASE("no range is too narrow, too wide or too far away for marks") {
    constexpr double most = std::numeric_limits<double>::max();
    constexpr double least = std::numeric_limits<double>::denorm_min();
    const Range range =
        GENERATE(Range{}, Range{0, 0}, Range{5, 5}, Range{-most, most}, Range{most, most},
                 Range{-least, least}, Range{least, most}, Range{1e18, 1e18 + 128});
    const bool logarithmic = GENERATE(false, true);
    CAPTURE(range.low, range.high, logarithmic);
    const Scale scale(range, logarithmic);
    const std::vector<Tick> ticks = scale.ticks(5);
    CHECK(ticks.size() >= 1);
    CHECK(ticks.size() <= 20);
    for (const Tick& tick : ticks) {
        CHECK(tick.share >= -1e-9);
        CHECK(tick.share <= 1 + 1e-9);
        CHECK(tick.label.size() <= 16);
    }
}

TEST_CASE("a scale is logarithmic only where that shows more") {
    CHECK_FALSE(needs_log({}));
    CHECK_FALSE(needs_log({1, 2, 3}));
    CHECK(needs_log({1, 1, 2, 400}));
    CHECK_FALSE(needs_log({0, 1, 2, 400}));
}

}  // namespace
}  // namespace gptrain
