// Promises of the ops of experts besides their formulas.
#include <cmath>

#include "backends.h"
#include "cases.h"
#include "catch.h"

namespace gptrain {
namespace {

constexpr std::int64_t inputs = 24;
constexpr std::int64_t outputs = 40;
constexpr std::int64_t parts = 2;

/// The bytes of rows [begin, begin + count).
std::vector<std::byte> rows_of(const HostTensor& tensor, std::int64_t begin, std::int64_t count) {
    const std::int64_t bytes = tensor.shape()[1] * size_of(tensor.dtype());
    return {tensor.bytes().begin() + begin * bytes,
            tensor.bytes().begin() + (begin + count) * bytes};
}

struct Result {
    HostTensor y, dx;
};

/// A layer of experts over rows that are the same in each call; the last of the experts has `rows`
/// of them.
Result run_layer(Backend& backend, DType dtype, std::int64_t experts, std::int64_t rows) {
    std::vector<double> starts(static_cast<std::size_t>(experts) + 1, 0);
    starts.back() = static_cast<double>(rows);
    const DeviceTensor x(backend, HostTensor(dtype, {rows, inputs}, random_values(), 1));
    const DeviceTensor dy(backend, HostTensor(dtype, {rows, parts * outputs}, random_values(), 2));
    const DeviceTensor weight(
        backend, HostTensor(dtype, {parts, experts, outputs, inputs}, random_values(), 3));
    const DeviceTensor offsets(backend, HostTensor(DType::i32, {experts + 1}, given(starts)));
    const DeviceTensor y(backend, HostTensor(dtype, {rows, parts * outputs}));
    const DeviceTensor dx(backend, HostTensor(dtype, {rows, inputs}));
    ScratchMemory scratch(backend);
    const OpLimits limits = {.compute = dtype,
                             .sequences = 1,
                             .seq_length = rows,
                             .hidden = inputs,
                             .widest = parts * outputs,
                             .experts = experts,
                             .expert_slots = rows,
                             .expert_width = parts * outputs};
    backend.use_scratch(scratch.take(backend.scratch_bytes(limits)));
    backend.run(GroupedForward{
        .x = x.tensor(), .weight = weight.tensor(), .offsets = offsets.tensor(), .y = y.tensor()});
    backend.run(GroupedInputGrad{.dy = dy.tensor(),
                                 .weight = weight.tensor(),
                                 .offsets = offsets.tensor(),
                                 .dx = dx.tensor()});
    return {y.download(), dx.download()};
}

struct Routed {
    HostTensor chosen, weights;
};

Routed route(Backend& backend, const RouterRule& rule, const std::vector<double>& logits,
             std::int64_t per_token) {
    const std::int64_t experts = std::ssize(logits);
    const DeviceTensor scores(backend, HostTensor(DType::f32, {1, experts}, given(logits)));
    const DeviceTensor chosen(backend, HostTensor(DType::i32, {1, per_token}));
    const DeviceTensor weights(backend, HostTensor(DType::f32, {1, per_token}));
    ScratchMemory scratch(backend);
    backend.use_scratch(scratch.take(backend.scratch_bytes(
        {.sequences = 1, .seq_length = 1, .experts = experts, .expert_slots = per_token})));
    backend.run(RouterForward{.logits = scores.tensor(),
                              .balance = {},
                              .rule = rule,
                              .chosen = chosen.tensor(),
                              .weights = weights.tensor()});
    return {chosen.download(), weights.download()};
}

}  // namespace

TEST_CASE("the bits of an expert's row do not depend on how many rows it has") {
    for (const auto& backend : built_backends()) {
        for (const DType dtype : compute_dtypes) {
            const Result all = run_layer(*backend, dtype, 2, 140);
            for (const std::int64_t rows : {1, 2, 15, 16, 17, 33, 95, 97, 127, 128, 129}) {
                CAPTURE(backend->name(), name_of(dtype), rows);
                const Result some = run_layer(*backend, dtype, 2, rows);
                CHECK(some.y.bytes() == rows_of(all.y, 0, rows));
                CHECK(some.dx.bytes() == rows_of(all.dx, 0, rows));
            }
        }
    }
}

TEST_CASE("for the choice of experts NaN counts as less than every number") {
    const auto nan = static_cast<double>(NAN);
    for (const auto& backend : built_backends()) {
        CAPTURE(backend->name());
        const RouterRule sigmoid = {.score = RouterScore::sigmoid};
        const Routed some = route(*backend, sigmoid, {nan, -2, nan, 1, -3}, 3);
        CHECK(some.chosen == HostTensor(DType::i32, {1, 3}, given({1, 3, 4})));
        CHECK(std::isfinite(some.weights[0]));
        const Routed last = route(*backend, sigmoid, {nan, -2, nan, nan}, 2);
        CHECK(last.chosen == HostTensor(DType::i32, {1, 2}, given({0, 1})));
        CHECK(std::isnan(last.weights[0]));
        // A group whose two largest have a NaN loses to any other.
        RouterRule groups = sigmoid;
        groups.groups = 3;
        const Routed kept = route(*backend, groups, {nan, 9, -5, -6, nan, nan}, 1);
        CHECK(kept.chosen == HostTensor(DType::i32, {1, 1}, given({2})));
        // All scores of a softmax are NaN if one logit is.
        const Routed softmax = route(*backend, {}, {1, 5, nan, 7}, 2);
        CHECK(softmax.chosen == HostTensor(DType::i32, {1, 2}, given({0, 1})));
        CHECK(std::isnan(softmax.weights[0]));
        CHECK(std::isnan(softmax.weights[1]));
    }
}

}  // namespace gptrain
