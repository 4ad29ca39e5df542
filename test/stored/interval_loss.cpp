#include "stored/interval_loss.h"

#include "base/error.h"
#include "catch.h"

namespace gptrain {
namespace {

TEST_CASE("the mean is over the tokens of the interval's steps") {
    IntervalLoss losses(3);
    CHECK(losses.mean() == std::nullopt);
    losses.add(1, WeightedSum{.sum = 30, .weight = 10});
    losses.add(2, WeightedSum{.sum = 10, .weight = 10});
    losses.add(3, WeightedSum{.sum = 20, .weight = 20});
    CHECK(losses.mean() == 1.5);
    losses.add(4, WeightedSum{.sum = 5, .weight = 10});
    CHECK(losses.mean() == 0.5);
}

TEST_CASE("steps that were left out do not count, but end the interval before them") {
    IntervalLoss losses(2);
    losses.add(1, WeightedSum{.sum = 30, .weight = 10});
    losses.add(2, std::nullopt);
    CHECK(losses.mean() == 3.0);
    losses.add(3, std::nullopt);
    CHECK(losses.mean() == std::nullopt);
    losses.add(4, WeightedSum{.sum = 20, .weight = 10});
    CHECK(losses.mean() == 2.0);
}

TEST_CASE("an interval goes on after a resume as if there had been none") {
    const int resumed_after = GENERATE(1, 2, 3, 4, 5, 6, 7);
    CAPTURE(resumed_after);
    IntervalLoss whole(4);
    IntervalLoss parts(4);
    for (int step = 1; step <= 9; ++step) {
        const WeightedSum loss = {.sum = 1.0 / step, .weight = 10};
        whole.add(step, loss);
        parts.add(step, loss);
        if (step == resumed_after) {
            const Json saved = parse_json(parts.to_json().dump(), "test");
            parts = IntervalLoss(4);
            parts.restore(saved, "test");
        }
        CHECK(whole.mean() == parts.mean());
    }
}

TEST_CASE("a resume with another interval does not count the steps of the old one") {
    IntervalLoss before(2);
    before.add(9, WeightedSum{.sum = 30, .weight = 10});
    IntervalLoss losses(4);
    losses.restore(before.to_json(), "test");
    CHECK(losses.mean() == std::nullopt);
    losses.add(10, WeightedSum{.sum = 10, .weight = 10});
    CHECK(losses.mean() == 1.0);
}

TEST_CASE("what an older checkpoint has is an interval without steps") {
    IntervalLoss losses(10);
    losses.add(1, WeightedSum{.sum = 30, .weight = 10});
    losses.restore(Json(), "test");
    CHECK(losses.mean() == std::nullopt);
    losses.restore({{"loss", 30}, {"weight", 10}}, "test");
    CHECK(losses.mean() == std::nullopt);
    CHECK_THROWS_AS(losses.restore({{"loss", 1}}, "test"), Error);
}

}  // namespace
}  // namespace gptrain
