// The step state: values that the host sets, values that are carried over, and decisions that are
// made where the gradients are.
#include <cmath>

#include "backends.h"
#include "catch.h"
#include "op_case.h"

namespace gptrain {
namespace {

StepState after(Backend& backend, const StepState& before,
                const std::function<void(const StepRef&)>& op) {
    const DeviceTensor state(backend, to_host(before));
    const DeviceTensor first_sequence(backend, HostTensor(DType::i64, {1}));
    const DeviceTensor scratch(backend, HostTensor(DType::u8, {backend.scratch_bytes({})}));
    backend.use_scratch(scratch.tensor());
    op({state.tensor(), first_sequence.tensor(), 0});
    return to_step_state(state.download());
}

StepState decide(Backend& backend, const StepState& before, const StepPolicy& policy) {
    return after(backend, before, [&](const StepRef& step) {
        backend.run(DecideStep{.step = step, .policy = policy});
    });
}

StepState begin(Backend& backend, const StepState& before, const StepState& given) {
    return after(backend, before, [&](const StepRef& step) {
        backend.run(BeginStep{.step = step, .given = given});
    });
}

/// A state in the middle of a run, with its gradients summed.
StepState running_state() {
    StepState state = initial_step_state(1024);
    state.step = 12;
    state.token_weight_sum = 100;
    state.learning_rate = 0.01;
    state.clean_steps = 3;
    state.updates = 9;
    state.skipped_steps = 2;
    state.skipped_in_a_row = 1;
    state.loss_sum = 250;
    state.grad_square_sum = 1024.0 * 1024.0 * 9;  // a norm of 3 under the loss scale
    return state;
}

}  // namespace

TEST_CASE("begin_step sets what is given, clears the results and keeps the rest") {
    for (const auto& backend : built_backends()) {
        StepState before = running_state();
        before.grad_norm = 3;
        before.grad_factor = 0.5;
        before.skip = Skip::not_finite;
        before.faulty_sequence = 3;
        before.faulty_tensor = 0;
        before.unplaced_rows = 7;
        before.repeats = before.waits = 1;
        StepState given{};
        given.step = 13;
        given.token_weight_sum = 64;
        given.learning_rate = 0.02;
        given.loss_limit = 5;
        StepState expected = running_state();
        expected.step = 13;
        expected.token_weight_sum = 64;
        expected.learning_rate = 0.02;
        expected.loss_sum = expected.grad_square_sum = expected.grad_norm = expected.grad_factor =
            0;
        expected.skip = Skip::none;
        expected.loss_limit = 5;
        expected.faulty_sequence = expected.faulty_tensor = -1;
        expected.waits = 1;
        CHECK(to_host(begin(*backend, before, given)) == to_host(expected));
        given.repeats = expected.repeats = 1;
        expected.waits = 0;
        CHECK(to_host(begin(*backend, before, given)) == to_host(expected));
    }
}

TEST_CASE("no step updates between one with unplaced rows and the one that repeats it") {
    for (const auto& backend : built_backends()) {
        const StepPolicy policy = {1.0, 4};  // the loss scale would grow after a clean step
        // The gradients of the step are summed.
        const auto next = [&](const StepState& before, bool repeats, double unplaced) {
            StepState state = running_state();
            state.repeats = repeats ? 1 : 0;
            state = begin(*backend, before, state);
            state.loss_sum = 250;
            state.grad_square_sum = 1;
            state.unplaced_rows = unplaced;
            return decide(*backend, state, policy);
        };
        const auto is_left_out = [](const StepState& state) {
            const StepState old = running_state();
            return state.skip == Skip::repeat && state.waits == 1 && state.updates == old.updates &&
                   state.skipped_steps == old.skipped_steps &&
                   state.skipped_in_a_row == old.skipped_in_a_row &&
                   state.loss_scale == old.loss_scale && state.clean_steps == old.clean_steps;
        };
        StepState state = next(running_state(), false, 5);
        CHECK(is_left_out(state));
        CHECK(state.unplaced_rows == 5);
        state.grad_square_sum = NAN;  // of rows that are missing: no fault
        CHECK(is_left_out(decide(*backend, state, policy)));
        state = next(state, false, 0);
        CHECK(is_left_out(state));
        // A repetition in which rows are unplaced again has to be repeated.
        state = next(state, true, 1);
        CHECK(is_left_out(state));
        state = next(state, true, 0);
        CHECK(state.skip == Skip::none);
        CHECK(state.waits == 0);
        CHECK(state.updates == 10);
        CHECK(state.loss_scale == 2048);
        CHECK(next(state, false, 0).updates == 11);
    }
}

TEST_CASE("DecideStep clips by the norm without the loss scale") {
    for (const auto& backend : built_backends()) {
        for (const double clip : {0.0, 1.0, 2.9999, 3.1}) {
            CAPTURE(clip);
            const StepState got = decide(*backend, running_state(), {clip, 0});
            const double factor = clip > 0 ? std::min(1.0, clip / (3 + 1e-6)) : 1.0;
            CHECK(got.grad_norm == Approx(3).epsilon(1e-14));
            CHECK(got.grad_factor == Approx(factor / 1024).epsilon(1e-14));
            CHECK(got.skip == Skip::none);
            CHECK(got.updates == 10);
            CHECK(got.skipped_steps == 2);
            CHECK(got.skipped_in_a_row == 0);
            CHECK(got.loss_scale == 1024);
            CHECK(got.loss_sum == 250);
            CHECK(got.step == 12);
        }
    }
}

TEST_CASE("DecideStep skips a step that is not finite") {
    for (const auto& backend : built_backends()) {
        for (const double bad : {static_cast<double>(NAN), static_cast<double>(INFINITY),
                                 -static_cast<double>(INFINITY)}) {
            for (const bool in_loss : {false, true}) {
                CAPTURE(bad, in_loss);
                StepState before = running_state();
                (in_loss ? before.loss_sum : before.grad_square_sum) = bad;
                const StepState got = decide(*backend, before, {1.0, 100});
                CHECK(got.skip == Skip::not_finite);
                CHECK(got.updates == 9);
                CHECK(got.skipped_steps == 3);
                CHECK(got.skipped_in_a_row == 2);
                CHECK(got.loss_scale == 512);
                CHECK(got.clean_steps == 0);
            }
        }
    }
}

TEST_CASE("the loss scale grows after clean steps, halves on a skip, and is never below 1") {
    for (const auto& backend : built_backends()) {
        StepState state = initial_step_state(2);
        state.token_weight_sum = 1;
        const auto next = [&](bool clean) {
            state.grad_square_sum = clean ? 1 : INFINITY;
            state = decide(*backend, state, {1.0, 3});
            return state.loss_scale;
        };
        CHECK(next(true) == 2);
        CHECK(next(true) == 2);
        CHECK(next(true) == 4);
        CHECK(next(true) == 4);
        CHECK(next(true) == 4);
        CHECK(next(false) == 2);
        CHECK(next(true) == 2);
        CHECK(next(true) == 2);
        CHECK(next(false) == 1);
        CHECK(next(false) == 1);
        CHECK(state.skipped_in_a_row == 2);
        CHECK(next(true) == 1);
        CHECK(next(true) == 1);
        CHECK(next(true) == 2);
        CHECK(state.updates == 10);
        CHECK(state.skipped_steps == 3);
        CHECK(state.skipped_in_a_row == 0);
    }
}

TEST_CASE("without a growth interval the loss scale stays, also on a skip") {
    for (const auto& backend : built_backends()) {
        StepState state = initial_step_state(1);
        state.grad_square_sum = NAN;
        state = decide(*backend, state, {1.0, 0});
        CHECK(state.skip == Skip::not_finite);
        CHECK(state.loss_scale == 1);
        state = initial_step_state(8);
        state.grad_square_sum = NAN;
        CHECK(decide(*backend, state, {1.0, 0}).loss_scale == 8);
    }
}

TEST_CASE("the compute copy of a weight is its rounding") {
    for (const auto& backend : built_backends()) {
        for (const DType dtype : {DType::bf16, DType::f16}) {
            const Shape shape = {1001};
            const DeviceTensor param(*backend, HostTensor(DType::f32, shape, random_values(), 1));
            const DeviceTensor grad(*backend, HostTensor(DType::f32, shape, random_values(), 2));
            const DeviceTensor exp_avg(*backend, HostTensor(DType::f32, shape, constant(0)));
            const DeviceTensor exp_avg_sq(*backend, HostTensor(DType::f32, shape, constant(0)));
            const DeviceTensor weight(*backend, HostTensor(dtype, shape));
            ScratchMemory scratch(*backend);
            backend->use_scratch(scratch.take(backend->scratch_bytes({.compute = dtype})));
            StepState state = running_state();
            state.grad_factor = 1;
            const AdamWPiece piece = {param.tensor(),      grad.tensor(),   exp_avg.tensor(),
                                      exp_avg_sq.tensor(), weight.tensor(), true};
            after(*backend, state, [&](const StepRef& step) {
                backend->run(AdamW{.pieces = std::span(&piece, 1), .constants = {}, .step = step});
            });
            const HostTensor updated = param.download();
            const HostTensor expected(dtype, shape,
                                      [&](std::int64_t i, PhiloxKey) { return updated[i]; });
            CHECK(weight.download() == expected);
        }
    }
}

TEST_CASE("DecideStep leaves out a step whose loss is above its limit, and only counts it") {
    for (const auto& backend : built_backends()) {
        StepState before = running_state();  // a mean loss of 2.5
        before.loss_limit = 2.5;
        CHECK(decide(*backend, before, {1.0, 100}).skip == Skip::none);
        before.loss_limit = 2.4999;
        const StepState got = decide(*backend, before, {1.0, 100});
        CHECK(got.skip == Skip::loss_limit);
        CHECK(got.updates == 9);
        CHECK(got.skipped_steps == 3);
        CHECK(got.skipped_in_a_row == 2);
        CHECK(got.loss_scale == 1024);
        CHECK(got.clean_steps == 3);
        before.loss_sum = INFINITY;
        CHECK(decide(*backend, before, {1.0, 100}).skip == Skip::not_finite);
    }
}

TEST_CASE("DecideStep leaves out a step in which no token is learned, and counts it apart") {
    for (const auto& backend : built_backends()) {
        StepState before = running_state();
        before.token_weight_sum = before.loss_sum = before.grad_square_sum = 0;
        before.loss_limit = 2;
        const StepState got = decide(*backend, before, {1.0, 100});
        CHECK(got.skip == Skip::nothing_learned);
        CHECK(got.updates == 9);
        CHECK(got.skipped_steps == 3);
        CHECK(got.skipped_in_a_row == 1);
        CHECK(got.loss_scale == 1024);
        CHECK(got.clean_steps == 3);
        before.grad_square_sum = NAN;
        CHECK(decide(*backend, before, {1.0, 100}).skip == Skip::not_finite);
    }
}

TEST_CASE("the first microbatch whose loss is not finite is noted") {
    for (const auto& backend : built_backends()) {
        const DeviceTensor first_sequence(*backend, [] {
            HostTensor rows(DType::i64, {3});
            for (std::int64_t i = 0; i < 3; ++i)
                rows.tensor().as<std::int64_t>()[i] = 10 * i;
            return rows;
        }());
        StepState before = running_state();
        before.faulty_sequence = -1;
        const auto noted = [&](std::int64_t slot) {
            const DeviceTensor state(*backend, to_host(before));
            backend->run(CheckLoss{.step = {state.tensor(), first_sequence.tensor(), slot}});
            before = to_step_state(state.download());
            return before.faulty_sequence;
        };
        CHECK(noted(1) == -1);
        before.loss_sum = NAN;
        CHECK(noted(2) == 20);
        CHECK(noted(0) == 20);
    }
}

TEST_CASE("the first tensor that is not finite is found, in a step that is left out for that") {
    for (const auto& backend : built_backends()) {
        // More than one GPU table holds; some have no elements.
        std::vector<DeviceTensor> memory;
        std::vector<Tensor> tensors;
        for (std::int64_t i = 0; i < 130; ++i) {
            memory.emplace_back(*backend, HostTensor(DType::f32, {i % 7 == 0 ? 20000 : i % 5}));
            tensors.push_back(memory.back().tensor());
            backend->run(Fill{.x = tensors.back(), .value = 3e38F});
        }
        StepState before = running_state();
        before.faulty_tensor = -1;
        const auto found = [&](Skip skip) {
            before.skip = skip;
            return after(*backend, before,
                         [&](const StepRef& step) {
                             backend->run(FindNotFinite{.values = tensors, .step = step});
                         })
                .faulty_tensor;
        };
        CHECK(found(Skip::not_finite) == -1);
        for (const std::int64_t faulty : {129, 98, 56, 7, 0}) {
            const Tensor& tensor = tensors[static_cast<std::size_t>(faulty)];
            backend->run(Fill{.x = tensor.slice(0, tensor.elements() - 1, 1), .value = NAN});
            CHECK(found(Skip::not_finite) == faulty);
        }
        CHECK(found(Skip::none) == -1);
        CHECK(found(Skip::loss_limit) == -1);
    }
}

}  // namespace gptrain
