#include "cpu/cross_entropy.h"

#include <cmath>
#include <numeric>

#include "backend/step_state.h"
#include "cpu/parallel.h"
#include "cpu/row_kernels.h"
#include "cpu/step.h"
#include "tensor/dtype_switch.h"

namespace gptrain::cpu {
namespace {

constexpr std::int64_t softmax_cost = 8;

/// The largest of a row's logits, and the sum of exp(logit - maximum).
struct Exponentials {
    float maximum = 0;
    float sum = 1;
};

/// logits = factor softmax(logits), minus factor at the target if its index is in this row; with a
/// cap times its slope.
template <class T>
void row_gradient(T* logits, std::int64_t vocab, const Exponentials& of_row, float factor,
                  std::int64_t target, float softcap) {
    if (factor == 0) {
        std::fill(logits, logits + vocab, T{});
        return;
    }
    const auto [maximum, sum] = of_row;
    const bool hit = target >= 0 && target < vocab;
    const double at_target = hit ? to_float(logits[target]) : 0;
    if (softcap > 0) {
        row_kernels<T>().capped_exp(logits, maximum, factor / sum, softcap, vocab);
    } else {
        row_kernels<T>().scaled_exp(logits, maximum, factor / sum, vocab);
    }
    if (hit) {
        const double p = std::exp(at_target - maximum) / sum;
        const double share = softcap > 0 ? at_target / softcap : 0;
        logits[target] = from_float<T>(static_cast<float>(factor * (p - 1) * (1 - share * share)));
    }
}

/// weight sink.factor loss_scale / token_weight_sum; 0 where all weights are 0.
float gradient_factor(float weight, const CrossEntropy& args) {
    if (weight == 0) return 0;
    const StepState& state = step_state(args.step);
    return static_cast<float>(weight *
                              (args.sink.factor * (state.loss_scale / state.token_weight_sum)));
}

/// Adds the rows' losses to the sink, in row order.
void add_losses(const double* losses, const CrossEntropy& args) {
    const std::int64_t rows = args.logits.size(0);
    *args.sink.sum.as<double>() += std::accumulate(losses, losses + rows, 0.0);
    const LossBySource& by_source = args.sink.by_source;
    if (by_source.sums.empty()) return;
    auto* sums = by_source.sums.as<double>();
    const auto* sources = by_source.sources.as<std::int32_t>();
    const auto* weights = args.weights.as<float>();
    for (std::int64_t c = 0; c < rows; ++c) {
        const std::int64_t source = sources[(by_source.first_row + c) / by_source.length];
        sums[2 * source] += losses[c];
        sums[2 * source + 1] += weights[c];
    }
}

/// Calls f(row) for all rows.
void for_rows(const Tensor& logits, const auto& f) {
    parallel_ranges(logits.size(0), softmax_cost * logits.size(1), 1,
                    [&](std::int64_t begin, std::int64_t end) {
                        for (std::int64_t c = begin; c < end; ++c)
                            f(c);
                    });
}

template <class T>
void unsharded_cross_entropy(const CrossEntropy& args, Scratch& scratch) {
    const std::int64_t vocab = args.logits.size(1);
    const Rows<T> logits(args.logits);
    const auto* targets = args.targets.as<std::int32_t>();
    const auto* weights = args.weights.as<float>();
    auto* losses = scratch.take<double>(args.logits.size(0));
    for_rows(args.logits, [&](std::int64_t c) {
        T* row = logits[c];
        losses[c] = 0;
        Exponentials of_row;
        if (weights[c] != 0) {
            auto& [maximum, sum] = of_row;
            maximum = row_kernels<T>().maximum(row, vocab);
            sum = row_kernels<T>().exp_sum(row, maximum, vocab);
            const double log_sum = maximum + std::log(static_cast<double>(sum));
            losses[c] = weights[c] * (log_sum - to_float(row[targets[c]]));
        }
        if (args.gradient) {
            row_gradient(row, vocab, of_row, gradient_factor(weights[c], args), targets[c],
                         args.softcap);
        }
    });
    add_losses(losses, args);
}

}  // namespace

void run(const SoftCap& args) {
    with_compute_type(args.x.dtype(), [&](auto type) {
        using T = decltype(type);
        const Rows<T> rows(args.x);
        for_rows(args.x, [&](std::int64_t c) {
            row_kernels<T>().soft_cap(rows[c], args.cap, args.x.size(1));
        });
    });
}

void run(const CrossEntropy& args, Scratch& scratch) {
    with_compute_type(args.logits.dtype(),
                      [&](auto type) { unsharded_cross_entropy<decltype(type)>(args, scratch); });
}

void run(const VocabParallelMaximum& args) {
    const Tensor& logits = args.logits;
    auto* maximum = args.maximum.as<float>();
    with_compute_type(logits.dtype(), [&](auto type) {
        using T = decltype(type);
        const Rows<T> rows(logits);
        for_rows(logits, [&](std::int64_t c) {
            maximum[c] = row_kernels<T>().maximum(rows[c], logits.size(1));
        });
    });
}

void run(const VocabParallelSums& args) {
    const Tensor& logits = args.logits;
    const auto* maximum = args.maximum.as<float>();
    const auto* targets = args.targets.as<std::int32_t>();
    auto* sums = args.sums.as<float>();
    with_compute_type(logits.dtype(), [&](auto type) {
        using T = decltype(type);
        const Rows<T> rows(logits);
        for_rows(logits, [&](std::int64_t c) {
            const std::int64_t target = targets[c] - args.vocab_begin;
            const bool local = target >= 0 && target < logits.size(1);
            sums[2 * c] = row_kernels<T>().exp_sum(rows[c], maximum[c], logits.size(1));
            sums[2 * c + 1] = local ? to_float(rows[c][target]) : 0;
        });
    });
}

void run(const VocabParallelGradient& args, Scratch& scratch) {
    const Tensor& logits = args.loss.logits;
    const auto* maximum = args.maximum.as<float>();
    const auto* sums = args.sums.as<float>();
    const auto* targets = args.loss.targets.as<std::int32_t>();
    const auto* weights = args.loss.weights.as<float>();
    auto* losses = scratch.take<double>(logits.size(0));
    with_compute_type(logits.dtype(), [&](auto type) {
        const Rows<decltype(type)> rows(logits);
        for_rows(logits, [&](std::int64_t c) {
            const double log_sum = maximum[c] + std::log(static_cast<double>(sums[2 * c]));
            losses[c] = weights[c] == 0 ? 0 : weights[c] * (log_sum - sums[2 * c + 1]);
            if (!args.loss.gradient) return;
            row_gradient(rows[c], logits.size(1), {maximum[c], sums[2 * c]},
                         gradient_factor(weights[c], args.loss), targets[c] - args.vocab_begin,
                         args.loss.softcap);
        });
    });
    add_losses(losses, args.loss);
}

std::int64_t cross_entropy_scratch_bytes(std::int64_t rows) {
    return Scratch::bytes_of<double>(rows);
}

}  // namespace gptrain::cpu
