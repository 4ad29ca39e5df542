#include "cases.h"

namespace gptrain {
namespace {

struct Size {
    std::int64_t rows, vocab;
    std::int64_t gap = 0;
    bool large = false;
};

constexpr Size sizes[] = {{1, 1},    {1, 2},       {5, 11},    {5, 11, 3},
                          {17, 257}, {3, 5003, 1}, {2, 30011}, {256, 50257, 0, true}};

OpCase make_case(std::string_view op, const Size& size, DType dtype, bool gradient) {
    OpLimits limits;
    limits.compute = dtype;
    limits.sequences = 1;
    limits.seq_length = size.rows;
    limits.vocab = size.vocab;
    limits.head_rows = size.rows;
    OpCase result(text(op, gradient ? " gradient " : " ", name_of(dtype), " C", size.rows, " V",
                       size.vocab, " gap", size.gap),
                  limits);
    result.state.loss_scale = 64;
    result.state.token_weight_sum = 12.5;
    result.large = size.large;
    return result;
}

/// The factor of the loss in that of the step.
constexpr double factor = 0.75;

// Losses by source, in cases without gradients: rows of sequences of which some came before.
constexpr std::int64_t source_count = 3;
constexpr std::int64_t rows_before = 1;
constexpr std::int64_t length = 2;

/// Tokens of weight 0 have a garbage target.
Values target_ids(std::int64_t vocab) {
    return [ids = random_integers(0, vocab)](std::int64_t i, PhiloxKey stream) {
        return is_masked(i) ? (i % 2 == 0 ? -1.0 : 2e9) : ids(i, stream);
    };
}

/// Scores as in a trained model: in some rows one is far above the others.
Values logits_of(std::int64_t vocab) {
    return [=, normal = random_values(3)](std::int64_t i, PhiloxKey stream) {
        const bool winner = i % vocab == 0 && i / vocab % 2 == 0;
        return normal(i, stream) + (winner ? 30 : 0);
    };
}

struct Operands {
    Operand logits, targets, weights, sum;
    Operand by_source = none, sources = none;
};
Operands operands(OpCase& op, const Size& size, DType dtype, bool gradient) {
    Operands in;
    const Shape shape = {size.rows, size.vocab};
    in.logits = gradient ? op.updated(dtype, shape, logits_of(size.vocab), size.gap)
                         : op.input(dtype, shape, logits_of(size.vocab), size.gap);
    in.targets = op.input(DType::i32, {size.rows}, target_ids(size.vocab));
    in.weights = op.input(DType::f32, {size.rows}, token_weights());
    in.sum = op.updated(DType::f64, {1}, constant(3.25));
    if (gradient) return in;
    in.by_source = op.updated(DType::f64, {source_count, 2}, constant(0.5));
    in.sources = op.input(DType::i32, {div_ceil(rows_before + size.rows, length)},
                          random_integers(0, source_count));
    return in;
}

/// The loss of a source is what remains if all other rows have weight 0.
void add_source(Arrays& at, const Operands& in, std::int64_t source) {
    Array weights = at[in.weights];
    Sum weight;
    weight.add(at[in.by_source](source, 1));
    for (std::int64_t c = 0; c < weights.size(0); ++c) {
        if (at[in.sources].integer((rows_before + c) / length) != source) weights(c) = 0.0;
        weight.add(weights(c));
    }
    reference::cross_entropy(at[in.logits], at[in.targets], weights, false, 1,
                             at[in.by_source](source, 0));
    at[in.by_source](source, 1) = weight.result();
}

std::function<void(Arrays&)> reference_of(const OpCase& op, const Operands& in, bool gradient,
                                          double softcap = 0) {
    const double scale = factor * op.state.loss_scale / op.state.token_weight_sum;
    return [=](Arrays& at) {
        reference::cross_entropy(at[in.logits], at[in.targets], at[in.weights], gradient, scale,
                                 at[in.sum](0), softcap);
        for (std::int64_t source = 0; !gradient && source < source_count; ++source)
            add_source(at, in, source);
    };
}

CrossEntropy op_of(const Tensors& at, const Operands& in, bool gradient) {
    return {.logits = at[in.logits],
            .targets = at[in.targets],
            .weights = at[in.weights],
            .sink = {.sum = at[in.sum],
                     .factor = factor,
                     .by_source = {.sums = at[in.by_source],
                                   .sources = at[in.sources],
                                   .first_row = rows_before,
                                   .length = length}},
            .step = at.step,
            .gradient = gradient};
}

OpCase cross_entropy(const Size& size, DType dtype, bool gradient) {
    OpCase op = make_case("cross_entropy", size, dtype, gradient);
    const Operands in = operands(op, size, dtype, gradient);
    op.run = [=](Backend& backend, const Tensors& at) { backend.run(op_of(at, in, gradient)); };
    op.reference = reference_of(op, in, gradient);
    return op;
}

/// Above all logits, of which the largest has a slope far from 1.
constexpr float softcap = 64;

CrossEntropy capped(CrossEntropy op) {
    op.softcap = softcap;
    return op;
}

OpCase soft_cap(const Size& size, DType dtype) {
    OpCase op = make_case("soft_cap", size, dtype, false);
    const auto x = op.updated(dtype, {size.rows, size.vocab}, random_values(3), size.gap);
    constexpr float cap = 4;
    op.run = [=](Backend& backend, const Tensors& at) {
        backend.run(SoftCap{.x = at[x], .cap = cap});
    };
    op.reference = [=](Arrays& at) { reference::soft_cap(at[x], cap); };
    return op;
}

/// Does what an all-reduce does: combines the tensors element by element and gives each the result.
void reduce(Backend& backend, const std::vector<DeviceTensor>& tensors,
            float combine(float, float)) {
    const HostTensor first = tensors[0].download();
    std::vector<float> result(static_cast<std::size_t>(first.shape().elements()));
    for (std::size_t i = 0; i < tensors.size(); ++i) {
        const HostTensor host = tensors[i].download();
        for (std::size_t k = 0; k < result.size(); ++k) {
            const auto x = static_cast<float>(host[static_cast<std::int64_t>(k)]);
            result[k] = i == 0 ? x : combine(result[k], x);
        }
    }
    for (const DeviceTensor& tensor : tensors) {
        backend.upload(tensor.tensor(), std::as_bytes(std::span(result)));
    }
}

/// The ranks of a vocabulary-parallel head, one after the other. Each has its own sum; the first
/// one's is checked.
void run_vocab_parallel(Backend& backend, const CrossEntropy& whole, std::int64_t ranks) {
    const std::int64_t rows = whole.logits.size(0);
    const std::int64_t vocab = whole.logits.size(1);
    std::vector<VocabParallelGradient> parts;
    std::vector<DeviceTensor> losses, maxima, sums;
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
        losses.emplace_back(backend, HostTensor(DType::f64, {1}));
        maxima.emplace_back(backend, HostTensor(DType::f32, {rows}));
        sums.emplace_back(backend, HostTensor(DType::f32, {rows, 2}));
        VocabParallelGradient part;
        part.loss = whole;
        part.vocab_begin = rank * vocab / ranks;
        const std::int64_t end = (rank + 1) * vocab / ranks;
        part.loss.logits = whole.logits.slice(1, part.vocab_begin, end - part.vocab_begin);
        if (rank > 0) {
            part.loss.sink.sum = losses.back().tensor();
            part.loss.sink.by_source = {};
        }
        part.maximum = maxima.back().tensor();
        part.sums = sums.back().tensor();
        parts.push_back(part);
    }
    for (const auto& part : parts)
        backend.run(VocabParallelMaximum{.logits = part.loss.logits, .maximum = part.maximum});
    reduce(backend, maxima, [](float a, float b) { return std::max(a, b); });
    for (const auto& part : parts)
        backend.run(VocabParallelSums{.logits = part.loss.logits,
                                      .targets = part.loss.targets,
                                      .vocab_begin = part.vocab_begin,
                                      .maximum = part.maximum,
                                      .sums = part.sums});
    reduce(backend, sums, [](float a, float b) { return a + b; });
    for (const auto& part : parts)
        backend.run(part);
    backend.synchronize();
}

OpCase vocab_parallel(const Size& size, DType dtype, bool gradient, std::int64_t ranks) {
    OpCase op = make_case(text("vocab_parallel ranks ", ranks), size, dtype, gradient);
    const Operands in = operands(op, size, dtype, gradient);
    op.run = [=](Backend& backend, const Tensors& at) {
        run_vocab_parallel(backend, op_of(at, in, gradient), ranks);
    };
    op.reference = reference_of(op, in, gradient);
    return op;
}

/// The gradient of capped logits, on one rank and on several.
OpCase capped_loss(const Size& size, DType dtype, std::int64_t ranks) {
    OpCase op = make_case(text("capped loss, ranks ", ranks), size, dtype, true);
    const Operands in = operands(op, size, dtype, true);
    op.run = [=](Backend& backend, const Tensors& at) {
        const CrossEntropy whole = capped(op_of(at, in, true));
        ranks == 1 ? backend.run(whole) : run_vocab_parallel(backend, whole, ranks);
    };
    op.reference = reference_of(op, in, true, softcap);
    return op;
}

}  // namespace

std::vector<OpCase> loss_cases() {
    std::vector<OpCase> cases;
    for (const DType dtype : compute_dtypes) {
        for (const Size& size : {sizes[0], sizes[3], sizes[5]}) {
            cases.push_back(soft_cap(size, dtype));
            cases.push_back(capped_loss(size, dtype, 1));
            if (size.vocab > 1) cases.push_back(capped_loss(size, dtype, 2));
        }
        for (const Size& size : sizes) {
            for (const bool gradient : {false, true}) {
                cases.push_back(cross_entropy(size, dtype, gradient));
                if (size.large) continue;
                for (const std::int64_t ranks : {1, 2, 3}) {
                    if (ranks > size.vocab) continue;
                    cases.push_back(vocab_parallel(size, dtype, gradient, ranks));
                }
            }
        }
    }
    return cases;
}

}  // namespace gptrain
