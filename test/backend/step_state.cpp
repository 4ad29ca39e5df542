// The step state, and the coordinates of dropout.
#include "backend/step_state.h"

#include <vector>

#include "backend/dropout.h"
#include "catch.h"

namespace gptrain {

TEST_CASE("ranks reduce single numbers of the step state") {
    StepState state = initial_step_state(1024);
    CHECK(state.loss_scale == 1024);
    CHECK(state.updates == 0);
    state.token_weight_sum = 3;
    state.loss_sum = 5;
    state.grad_square_sum = 7;
    const StepRef step = {
        .state = {reinterpret_cast<std::byte*>(&state), DType::u8, {sizeof(StepState)}},
        .first_sequence = {}};
    CHECK(step.token_weight_sum().shape() == Shape{1});
    CHECK(*step.token_weight_sum().as<double>() == 3);
    CHECK(*step.loss_sum().as<double>() == 5);
    CHECK(*step.grad_square_sum().as<double>() == 7);
}

TEST_CASE("the measures follow the loss, and those of a step are the first") {
    const MeasureCounts counts = {.layers = 3, .expert_layers = 3, .sources = 2};
    std::vector<std::byte> bytes(static_cast<std::size_t>(state_bytes(counts)));
    const StepRef step = {.state = {bytes.data(), DType::u8, {std::ssize(bytes)}},
                          .first_sequence = {},
                          .counts = counts};
    constexpr std::int64_t by_layer = 4 * 3;
    CHECK(counts.total() == 2 + by_layer);
    CHECK(step.sums().as<double>() == step.loss_sum().as<double>());
    CHECK(step.sums().shape() == Shape{1 + 2 * (2 + by_layer)});
    const Tensor by_source = step.measure(Measure::loss_by_source);
    CHECK(by_source.shape() == Shape{2, 2});
    CHECK(by_source.as<double>() == step.sums().as<double>() + 1);
    const Tensor loads = step.measure(Measure::expert_load);
    CHECK(loads.shape() == Shape{3, 2});
    CHECK(loads.as<double>() == by_source.as<double>() + 2 * (2 + 2 * 3));
    CHECK(step.measures().shape() == Shape{2 + by_layer, 2});
    const StepRef without = step.with({.layers = 3, .expert_layers = 3});
    CHECK(without.measure(Measure::loss_by_source).empty());
    CHECK(without.measures().shape() == Shape{by_layer, 2});
    CHECK(without.measure(Measure::router_loss).as<double>() == without.sums().as<double>() + 1);
    CHECK(without.sums().shape() == Shape{1 + 2 * by_layer});
    const StepRef none = step.with({});
    CHECK(none.measures().empty());
    CHECK(none.sums().shape() == Shape{1});
    CHECK(none.state.elements() == sizeof(StepState));
}

namespace {

std::vector<std::int64_t> positions(const RowPositions& rows, std::int64_t count) {
    std::vector<std::int64_t> all;
    for (std::int64_t row = 0; row < count; ++row)
        all.push_back(rows.position(row));
    return all;
}

}  // namespace

TEST_CASE("rows of a slice have the positions that they have in the whole sequence") {
    using Positions = std::vector<std::int64_t>;
    CHECK(positions({}, 3) == Positions{0, 1, 2});
    CHECK(positions({.first_begin = 8}, 3) == Positions{8, 9, 10});
    // Rank 1 of 2 in a ring over 8 positions: the second quarter and the third.
    CHECK(positions({.first_begin = 2, .first_count = 2, .second_begin = 4}, 4) ==
          Positions{2, 3, 4, 5});
    // Rank 1 of 2 in tp over two stripes of 6 positions.
    CHECK(positions({.first_begin = 3, .stripe = 3, .gap = 3}, 6) == Positions{3, 4, 5, 9, 10, 11});
    // Stripes count from the beginning of each run.
    CHECK(positions({.first_begin = 0, .first_count = 2, .second_begin = 20, .stripe = 2, .gap = 5},
                    6) == Positions{0, 1, 20, 21, 27, 28});
}

TEST_CASE("so many of 2^32 random words drop an element as its probability says") {
    CHECK(dropout_threshold(0) == 0);
    CHECK(dropout_threshold(0.25) == 0x40000000u);
    CHECK(dropout_threshold(0.5) == 0x80000000u);
}

}  // namespace gptrain
