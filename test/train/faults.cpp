// The reports of a run about steps and ranks at fault.
#include <cmath>

#include "catch.h"
#include "stored/loss_spikes.h"
#include "train/high_loss.h"
#include "train/replay.h"
#include "train/replicas.h"
#include "train/step_fault.h"

namespace gptrain {
namespace {

constexpr LossSpike policy = {.factor = 1.5, .window = 3, .action = LossSpike::Action::skip};

TEST_CASE("a loss is bounded by the mean of the window that ends two steps before") {
    LossSpikes spikes(policy);
    CHECK(spikes.limit(1) == 0);
    spikes.add(1, 2);
    spikes.add(2, 3);
    spikes.add(3, 4);
    CHECK(spikes.limit(4) == 0);  // the loss of step 3 may not be known yet
    CHECK(spikes.limit(5) == 1.5 * 3);
    spikes.add(4, 8);
    CHECK(spikes.limit(5) == 1.5 * 3);
    CHECK(spikes.limit(6) == 1.5 * 5);
    // Skipped steps are in no window.
    spikes.add(9, 3);
    CHECK(spikes.limit(10) == 1.5 * 5);
    CHECK(spikes.limit(11) == 1.5 * 5);
    CHECK(LossSpikes(std::nullopt).limit(100) == 0);
}

TEST_CASE("a loss far above that of guessing is told once, after the warm-up") {
    HighLoss losses(100, 10);
    CHECK(losses.guessing_loss() == std::log(100.0));
    const double bad = std::log(100.0) + HighLoss::margin + 0.25;
    for (int step = 1; step <= 59; ++step)
        CHECK_FALSE(losses.add(step, bad));
    CHECK(losses.add(60, bad).value_or(0) == Approx(bad));
    for (int step = 61; step <= 200; ++step)
        CHECK_FALSE(losses.add(step, bad));
}

TEST_CASE("a loss near that of guessing, or above it for a while, is not told") {
    HighLoss near(100, 0);
    HighLoss spike(100, 0);
    for (int step = 1; step <= 200; ++step) {
        CHECK_FALSE(near.add(step, std::log(100.0) + 0.99 * HighLoss::margin));
        CHECK_FALSE(spike.add(step, step % 50 == 7 ? 20 : 4));
    }
}

TEST_CASE("bounds go on after a resume as if nothing had been") {
    LossSpikes spikes(policy);
    for (int step = 1; step <= 10; ++step)
        spikes.add(step, 1.0 / step);
    LossSpikes resumed(policy);
    resumed.restore(spikes.to_json(), "test");
    for (const int step : {11, 12}) {
        CHECK(resumed.limit(step) == spikes.limit(step));
        CHECK(resumed.limit(step) > 0);
    }
    LossSpikes wider(LossSpike{.factor = 2, .window = 5, .action = LossSpike::Action::stop});
    wider.restore(spikes.to_json(), "test");
    CHECK(wider.limit(12) == 0);
    CHECK_THROWS_AS(resumed.restore(Json::array({{{"step", 1}}}), "test"), Error);
}

constexpr MeshShape mesh = {.data = 3, .pipeline = 2, .context = 1, .tensor = 1};

TEST_CASE("of replicas that differ the few are odd, and all where none are more") {
    const auto checksum = [](ReplicaSum& sum) -> std::int64_t& {
        return sum.checksums[static_cast<std::size_t>(Axis::dp_cp)];
    };
    std::vector<ReplicaSum> sums(6);
    for (std::size_t i = 0; i < 6; ++i)
        checksum(sums[i]) = i < 3 ? 7 : -9;
    CHECK(differing_replicas(sums, mesh).empty());
    checksum(sums[4]) = 7;  // that of the other stage
    CHECK(differing_replicas(sums, mesh) == std::vector<std::int64_t>{4});
    CHECK(describe_ranks({1, 4}, {"a", "b", "c", "d", "e", "f"}, mesh) ==
          "rank 1 (dp 1 pp 0 cp 0 tp 0) on b, rank 4 (dp 1 pp 1 cp 0 tp 0) on e");
    checksum(sums[3]) = 0;
    CHECK(differing_replicas(sums, mesh) == std::vector<std::int64_t>{3, 4, 5});
    constexpr MeshShape pair = {.data = 2, .pipeline = 1, .context = 1, .tensor = 1};
    std::vector<ReplicaSum> two(2);
    checksum(two[0]) = 1;
    CHECK(differing_replicas(two, pair) == std::vector<std::int64_t>{0, 1});
}

TEST_CASE("replicas are compared with those that share the same weights") {
    constexpr MeshShape both = {.data = 2, .pipeline = 1, .context = 3, .tensor = 1};
    std::vector<ReplicaSum> sums(6);
    for (std::size_t i = 0; i < 6; ++i) {
        sums[i].checksums[static_cast<std::size_t>(Axis::dp_cp)] = 5;
        // As of parameters that only the ranks of cp share.
        sums[i].checksums[static_cast<std::size_t>(Axis::cp)] = i < 3 ? 1 : 2;
    }
    CHECK(differing_replicas(sums, both).empty());
    sums[1].checksums[static_cast<std::size_t>(Axis::cp)] = 2;
    sums[5].checksums[static_cast<std::size_t>(Axis::dp_cp)] = 6;
    CHECK(differing_replicas(sums, both) == std::vector<std::int64_t>{1, 5});
}

TEST_CASE("copies of experts are compared where ranks divide them") {
    constexpr MeshShape divided = {.data = 4, .tensor = 2, .expert = 2};
    std::vector<ReplicaSum> sums(8);
    for (std::size_t i = 0; i < 8; ++i)
        sums[i].checksums[static_cast<std::size_t>(Axis::expert_copies)] = i % 2 == 0 ? 1 : 2;
    CHECK(differing_replicas(sums, divided).empty());
    sums[5].checksums[static_cast<std::size_t>(Axis::expert_copies)] = 1;
    CHECK(differing_replicas(sums, divided) == std::vector<std::int64_t>{5});
}

TEST_CASE("two runs of a microbatch differ where a rank computes something else from the same") {
    using enum Executor::Seen;
    const std::vector<SeenSum> first = {{input, 1}, {result, 2}, {input, 3}, {result, 4}};
    std::vector<SeenSum> second = first;
    CHECK(first_difference(first, second) == Difference::none);
    second[3].sum = 5;
    CHECK(first_difference(first, second) == Difference::result);
    second[2].sum = 5;
    CHECK(first_difference(first, second) == Difference::input);
    second[1].sum = 5;
    CHECK(first_difference(first, second) == Difference::result);
    CHECK_THROWS_AS(first_difference(first, {}), Error);
}

TEST_CASE("the ranks at fault are those with wrong results, or else with wrong inputs") {
    using enum Difference;
    CHECK(ranks_at_fault({none, none}).empty());
    CHECK(ranks_at_fault({none, result, input, result}) == std::vector<std::int64_t>{1, 3});
    CHECK(ranks_at_fault({input, none, input}) == std::vector<std::int64_t>{0, 2});
}

TEST_CASE("a fault of a step is where it came first") {
    std::vector<StepFault> faults(6);
    CHECK(describe(faults, mesh).empty());
    faults[2] = {-1, 5, "h.0.ln_1.weight"};
    faults[3] = {-1, 40, "h.1.attn.proj.weight"};
    faults[5] = {-1, 30, "h.1.mlp.fc.weight"};
    CHECK(describe(faults, mesh) == "the gradient of h.1.mlp.fc.weight");
    faults[4] = StepFault::from_text(StepFault{37, -1, ""}.to_text());
    CHECK(describe(faults, mesh) ==
          "the loss of rank 4 (dp 1 pp 1 cp 0 tp 0) from sample 37 on; the gradient of "
          "h.1.mlp.fc.weight");
}

}  // namespace
}  // namespace gptrain
