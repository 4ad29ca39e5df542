#include "metrics/goodput.h"

#include "catch.h"

namespace gptrain {
namespace {

TEST_CASE("a first start counts from itself") {
    Goodput goodput;
    goodput.begin(std::nullopt, std::nullopt);
    goodput.add(&TimeSpent::init, 1);
    goodput.add(&TimeSpent::useful, 6);
    goodput.add(&TimeSpent::save, 0.5);
    CHECK(goodput.spent().sum() == 7.5);
    CHECK(goodput.spent().goodput() == 0.8);
    CHECK(TimeSpent{}.goodput() == 0);
}

TEST_CASE("steps that the checkpoint does not hold are lost at the next start") {
    const TimeSpent saved = {.useful = 50, .init = 2, .save = 3};
    // Thirty more seconds of steps, which are in the log, and a save after that line.
    const TimeSpent logged = {.useful = 80, .init = 2, .save = 2.5, .eval = 4};
    Goodput goodput;
    goodput.begin(logged, saved);
    CHECK(goodput.spent() == TimeSpent{.useful = 50, .init = 2, .save = 3, .eval = 4, .lost = 30});
    // The same again: what was lost stays lost.
    TimeSpent later = goodput.spent();
    later.useful += 10;
    Goodput third;
    third.begin(later, saved);
    CHECK(third.spent().lost == 40);
    CHECK(third.spent().useful == 50);
}

TEST_CASE("without a checkpoint all steps were lost; without a log none") {
    Goodput from_log;
    from_log.begin(TimeSpent{.useful = 20, .init = 1}, std::nullopt);
    CHECK(from_log.spent() == TimeSpent{.init = 1, .lost = 20});
    Goodput elsewhere;
    elsewhere.begin(std::nullopt, TimeSpent{.useful = 20, .lost = 5});
    CHECK(elsewhere.spent() == TimeSpent{.useful = 20, .lost = 5});
}

TEST_CASE("rolled back steps are lost") {
    Goodput goodput;
    goodput.begin(std::nullopt, std::nullopt);
    goodput.add(&TimeSpent::useful, 10);
    const TimeSpent saved = goodput.spent();
    goodput.add(&TimeSpent::useful, 7);
    goodput.roll_back(saved);
    CHECK(goodput.spent() == TimeSpent{.useful = 10, .lost = 7});
}

TEST_CASE("the account reads back as it was written") {
    const TimeSpent spent = {
        .useful = 0.1, .init = 2, .load = 1e-9, .save = 4e9, .eval = 5, .lost = 1.0 / 3};
    CHECK(time_spent(to_json(spent), "test") == spent);
}

TEST_CASE("the interval of Young and Daly") {
    CHECK(best_save_interval(2, 10'000) == Approx(200));
    CHECK(expected_failure_seconds(1000) == Approx(50 * 3600));
}

}  // namespace
}  // namespace gptrain
