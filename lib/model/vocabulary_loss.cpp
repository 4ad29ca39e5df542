#include "model/vocabulary_loss.h"

#include <algorithm>

namespace gptrain {
namespace {

// Rows of an int8 weight that are dequantised at a time: enough for a GEMM, and few compared with
// the whole vocabulary.
constexpr std::int64_t widened_rows = 8192;

}  // namespace

Tensor VocabularyLoss::allocate_logits(Arena& arena, std::int64_t rows) const {
    const std::int64_t vocab = weight_.weight.size(0);
    const std::int64_t size = size_of(context_.compute);
    const std::int64_t stride = round_up(vocab * size, context_.backend.row_alignment()) / size;
    return arena.allocate(context_.compute, {rows, stride}).slice(1, 0, vocab);
}

void VocabularyLoss::multiply(const Tensor& x, const Tensor& y) const {
    Backend& backend = context_.backend;
    const Int8Matrix& int8 = weight_.int8;
    if (int8.empty())
        return backend.run(
            LinearForward{.x = x, .weight = weight_.weight, .bias = bias_.weight, .y = y});
    if (x.size(0) <= few_rows)
        return backend.run(Int8LinearForward{.x = x, .weight = int8, .bias = bias_.weight, .y = y});
    for (std::int64_t begin = 0; begin < weight_.outputs(); begin += widened_rows) {
        const ArenaFrame frame(context_.workspace());
        const std::int64_t count = std::min(widened_rows, weight_.outputs() - begin);
        const Tensor widened = context_.temporary({count, weight_.inputs()});
        backend.run(FromInt8{.x = {.values = int8.values.slice(0, begin, count),
                                   .scales = int8.scales.slice(0, begin, count)},
                             .out = widened});
        const Tensor& bias = bias_.weight;
        backend.run(LinearForward{.x = x,
                                  .weight = widened,
                                  .bias = bias.empty() ? bias : bias.slice(0, begin, count),
                                  .y = y.slice(1, begin, count)});
    }
}

void VocabularyLoss::make_logits(const Tensor& x, const Tensor& y) const {
    multiply(x, y);
    if (softcap() > 0) context_.backend.run(SoftCap{.x = y, .cap = softcap()});
}

void VocabularyLoss::cross_entropy(const CrossEntropy& args) const {
    Communicator& tp = context_.mesh.tp();
    if (tp.size() == 1) {
        context_.backend.run(args);
        return;
    }
    const std::int64_t rows = args.logits.size(0);
    const TargetScores scores = {.maximum = context_.temporary_f32({rows}),
                                 .sums = context_.temporary_f32({rows, 2})};
    score_targets(args.logits, args.targets, scores);
    context_.backend.run(VocabParallelGradient{.loss = args,
                                               .vocab_begin = context_.vocab_begin(),
                                               .maximum = scores.maximum,
                                               .sums = scores.sums});
}

void VocabularyLoss::score_targets(const Tensor& logits, const Tensor& targets,
                                   const TargetScores& scores) const {
    Communicator& tp = context_.mesh.tp();
    context_.backend.run(VocabParallelMaximum{.logits = logits, .maximum = scores.maximum});
    tp.all_reduce(scores.maximum, Reduce::max).wait();
    context_.backend.run(VocabParallelSums{.logits = logits,
                                           .targets = targets,
                                           .vocab_begin = context_.vocab_begin(),
                                           .maximum = scores.maximum,
                                           .sums = scores.sums});
    tp.all_reduce(scores.sums, Reduce::sum).wait();
}

void VocabularyLoss::weight_gradient(const Tensor& n, const Tensor& dlogits, bool first) const {
    if (!weight_.trained()) return;
    context_.backend.run(LinearWeightGrad{.x = n,
                                          .dy = dlogits,
                                          .dweight = weight_.grad,
                                          .dbias = {},
                                          .accumulate = !(first && weight_.storage.overwritten)});
}

void VocabularyLoss::add(const Tensor& n, const Gradients& gradients, const Pass& pass) const {
    const bool gradient = !gradients.dn.empty();
    const bool defers = !gradients.dlogits.empty();
    const std::int64_t tokens = pass.batch.tokens();
    const Tensor targets = pass.batch.targets.view({tokens});
    const Tensor weights = pass.batch.weights.view({tokens});
    for (std::int64_t begin = 0; begin < tokens; begin += context_.head_rows) {
        const ArenaFrame frame(context_.workspace());
        const std::int64_t count = std::min(context_.head_rows, tokens - begin);
        const Tensor x = n.slice(0, begin, count);
        const Tensor logits = defers ? gradients.dlogits.slice(0, begin, count)
                                     : allocate_logits(context_.workspace(), count);
        make_logits(x, logits);
        cross_entropy({.logits = logits,
                       .targets = targets.slice(0, begin, count),
                       .weights = weights.slice(0, begin, count),
                       .sink = {.sum = pass.step.loss_sum(),
                                .by_source = {.sums = pass.step.measure(Measure::loss_by_source),
                                              .sources = pass.batch.sources,
                                              .first_row = begin,
                                              .length = pass.batch.seq_length()}},
                       .step = pass.step,
                       .gradient = gradient,
                       .softcap = softcap()});
        if (!gradient) continue;
        context_.backend.run(LinearInputGrad{.dy = logits,
                                             .weight = weight_.weight,
                                             .gelu_input = {},
                                             .dx = gradients.dn.slice(0, begin, count)});
        if (bias_.trained()) context_.backend.run(BiasGrad{.dy = logits, .dbias = bias_.grad});
        if (!defers) weight_gradient(x, logits, pass.first_gradients && begin == 0);
    }
}

void VocabularyLoss::weight_gradient(const Tensor& n, const Tensor& dlogits) const {
    // Uses the chunks in which F would have added it, so that the sum has the same bits.
    for (std::int64_t begin = 0; begin < n.size(0); begin += context_.head_rows) {
        const std::int64_t count = std::min(context_.head_rows, n.size(0) - begin);
        weight_gradient(n.slice(0, begin, count), dlogits.slice(0, begin, count), false);
    }
}

void VocabularyLoss::score(const Tensor& n, const Pass& pass, const TargetScores& scores) const {
    const Tensor targets = pass.batch.targets.view({n.size(0)});
    for (std::int64_t begin = 0; begin < n.size(0); begin += context_.head_rows) {
        const ArenaFrame rows(context_.workspace());
        const std::int64_t count = std::min(context_.head_rows, n.size(0) - begin);
        const auto part = [&](const Tensor& whole) { return whole.slice(0, begin, count); };
        const Tensor logits = allocate_logits(context_.workspace(), count);
        make_logits(part(n), logits);
        score_targets(logits, part(targets),
                      {.maximum = part(scores.maximum), .sums = part(scores.sums)});
    }
}

Tensor VocabularyLoss::chosen_rows(const Tensor& n, std::span<const std::int64_t> rows) const {
    if (std::ssize(rows) == n.size(0)) return n;
    const Tensor chosen = context_.temporary({std::ssize(rows), n.size(1)});
    for (std::size_t begin = 0, end = 0; begin < rows.size(); begin = end) {
        while (end < rows.size() && rows[end] - rows[begin] == std::int64_t(end - begin))
            ++end;
        const auto count = static_cast<std::int64_t>(end - begin);
        context_.backend.copy(chosen.slice(0, static_cast<std::int64_t>(begin), count),
                              n.slice(0, rows[begin], count));
    }
    return chosen;
}

void VocabularyLoss::logits(const Tensor& n, std::span<const std::int64_t> rows,
                            const Tensor& logits) const {
    make_logits(chosen_rows(n, rows), logits.slice(1, 0, weight_.outputs()));
}

}  // namespace gptrain
