#include "cases.h"

namespace gptrain {
namespace {

struct Size {
    std::int64_t sequences, seq_length, hidden, rows;
    bool large = false;
    std::int64_t tokens() const { return sequences * seq_length; }
};

// Fewer rows than tokens: many tokens add to one row.
constexpr Size sizes[] = {{1, 1, 1, 1},
                          {2, 9, 7, 5},
                          {3, 31, 65, 11},
                          {1, 5, 1031, 40},
                          {1, 700, 16, 3},
                          {2, 1300, 4, 900},
                          {1, 1024, 768, 50257, true}};

OpCase make_case(std::string_view op, const Size& size, DType dtype) {
    OpLimits limits;
    limits.compute = dtype;
    limits.sequences = size.sequences;
    limits.seq_length = size.seq_length;
    limits.hidden = size.hidden;
    limits.vocab = size.rows;
    OpCase result(text(op, " ", name_of(dtype), " B", size.sequences, " S", size.seq_length, " H",
                       size.hidden, " rows ", size.rows),
                  limits);
    result.large = size.large;
    return result;
}

/// Some ids belong to the ranks before and after.
constexpr std::int64_t vocab_begin = 100;
Values vocabulary_ids(const Size& size) {
    return random_integers(vocab_begin - size.rows / 4, vocab_begin + size.rows + size.rows / 4);
}

/// A factor that no dtype holds exactly.
constexpr float scale_factor = 27.712812f;
std::string scale_text(float scale) {
    return scale == 1 ? "" : " scaled";
}

OpCase embedding_forward(const Size& size, DType dtype, float scale) {
    OpCase op = make_case("embedding_forward" + scale_text(scale), size, dtype);
    const auto ids = op.input(DType::i32, {size.tokens()}, vocabulary_ids(size));
    const auto weight = op.input(dtype, {size.rows, size.hidden}, random_values());
    const auto x = op.output(dtype, {size.tokens(), size.hidden});
    op.run = [=](Backend& backend, const Tensors& at) {
        backend.run(EmbeddingForward{at[ids], at[weight], vocab_begin, at[x], scale});
    };
    op.reference = [=](Arrays& at) {
        reference::embedding_forward(at[ids], at[weight], vocab_begin, at[x]);
        for (Bounded& value : at[x].values())
            value = value * Bounded(scale);
    };
    return op;
}

OpCase embedding_backward(const Size& size, DType dtype, float scale) {
    OpCase op = make_case("embedding_backward" + scale_text(scale), size, dtype);
    const auto ids = op.input(DType::i32, {size.tokens()}, vocabulary_ids(size));
    const auto dx = op.input(dtype, {size.tokens(), size.hidden}, random_values());
    const auto dweight = op.updated(DType::f32, {size.rows, size.hidden}, random_values());
    op.run = [=](Backend& backend, const Tensors& at) {
        backend.run(EmbeddingBackward{at[ids], at[dx], at[dweight], vocab_begin, scale});
    };
    op.reference = [=](Arrays& at) {
        Array scaled = at[dx];
        for (Bounded& value : scaled.values())
            value = value * Bounded(scale);
        reference::embedding_backward(at[ids], scaled, vocab_begin, at[dweight]);
    };
    return op;
}

Dropout dropout_with(float probability) {
    Dropout dropout;
    dropout.probability = probability;
    dropout.seed = 99;
    dropout.rows.first_begin = 2;
    return dropout;
}

OpCase position_forward(const Size& size, DType dtype, bool learned, float probability) {
    OpCase op = make_case(
        text("position_forward", learned ? "" : " rope", " dropout ", probability), size, dtype);
    const auto x = op.updated(dtype, {size.tokens(), size.hidden}, random_values());
    const auto positions = op.input(DType::i32, {size.tokens()}, random_integers(0, size.rows));
    const auto weight = learned ? op.input(dtype, {size.rows, size.hidden}, random_values()) : none;
    const auto mask = use_dropout(op, dropout_with(probability));
    op.run = [=](Backend& backend, const Tensors& at) {
        backend.run(PositionForward{at[x], at[positions], at[weight], dropout_of(mask, at),
                                    size.seq_length});
    };
    op.reference = [=](Arrays& at) {
        if (learned) {
            Array added(at[x].shape());
            reference::embedding_forward(at[positions], at[weight], 0, added);
            for (std::size_t i = 0; i < added.values().size(); ++i) {
                at[x].values()[i] += added.values()[i];
            }
        }
        reference::dropout(mask, size.seq_length, at[x]);
    };
    return op;
}

OpCase position_backward(const Size& size, DType dtype, bool learned, float probability) {
    OpCase op = make_case(
        text("position_backward", learned ? "" : " rope", " dropout ", probability), size, dtype);
    const auto dx = op.updated(dtype, {size.tokens(), size.hidden}, random_values());
    const auto positions = op.input(DType::i32, {size.tokens()}, random_integers(0, size.rows));
    const auto dweight =
        learned ? op.updated(DType::f32, {size.rows, size.hidden}, random_values()) : none;
    const auto mask = use_dropout(op, dropout_with(probability));
    op.run = [=](Backend& backend, const Tensors& at) {
        backend.run(PositionBackward{at[dx], at[positions], at[dweight], dropout_of(mask, at),
                                     size.seq_length});
    };
    op.reference = [=](Arrays& at) {
        reference::dropout(mask, size.seq_length, at[dx]);
        if (!learned) return;
        Array added = at[dx];
        for (Bounded& x : added.values())
            x = probability > 0 ? stored(x, dtype) : x;
        reference::embedding_backward(at[positions], added, 0, at[dweight]);
    };
    return op;
}

/// q and k of a packed GEMM output (q heads, then k and v groups).
/// Rotates the first `rotated` features of heads, and finds the amax if these are all.
OpCase rope(std::int64_t sequences, std::int64_t seq_length, std::int64_t heads,
            std::int64_t head_dim, std::int64_t rotated, DType dtype, const Rope& how) {
    OpLimits limits;
    limits.compute = dtype;
    limits.sequences = sequences;
    limits.seq_length = seq_length;
    limits.heads = heads;
    limits.groups = 1;
    limits.head_dim = head_dim;
    OpCase op(
        text(how.inverse ? "rope inverse " : "rope ", how.scaling ? "yarn " : "", name_of(dtype),
             " B", sequences, " S", seq_length, " N", heads, " D", head_dim, " rotated ", rotated),
        limits);
    op.large = seq_length > 1000;
    const std::int64_t width = (heads + 2) * head_dim;
    const auto packed = op.storage(dtype, {sequences * seq_length, width});
    const auto x = op.part(
        Role::updated, packed,
        [=](const Tensor& all) {
            return all.slice(1, head_dim, heads * head_dim)
                .view({sequences, seq_length, heads, head_dim})
                .slice(3, 0, rotated);
        },
        random_values());
    const auto positions =
        op.input(DType::i32, {sequences, seq_length}, random_integers(0, 100000));
    const auto amax = rotated == head_dim ? op.updated(DType::f32, {1}, constant(0x1p-20)) : none;
    op.run = [=](Backend& backend, const Tensors& at) {
        Rope args = how;
        args.amax = at[amax];
        args.x = at[x];
        args.positions = at[positions];
        backend.run(args);
    };
    op.reference = [=](Arrays& at) {
        reference::update_amax(at.result(x), at[amax]);
        reference::rope(at[x], at[positions], how);
    };
    return op;
}

}  // namespace

std::vector<OpCase> embedding_cases() {
    std::vector<OpCase> cases;
    for (const DType dtype : compute_dtypes) {
        for (const Size& size : sizes) {
            for (const float scale : {1.0f, scale_factor}) {
                cases.push_back(embedding_forward(size, dtype, scale));
                cases.push_back(embedding_backward(size, dtype, scale));
            }
            for (const float probability : {0.0f, 0.25f}) {
                for (const bool learned : {false, true}) {
                    cases.push_back(position_forward(size, dtype, learned, probability));
                    cases.push_back(position_backward(size, dtype, learned, probability));
                }
            }
        }
        for (const bool inverse : {false, true}) {
            Rope how;
            how.inverse = inverse;
            cases.push_back(rope(1, 1, 1, 2, 2, dtype, how));
            cases.push_back(rope(2, 5, 3, 6, 6, dtype, how));
            cases.push_back(rope(2, 37, 2, 80, 80, dtype, how));
            cases.push_back(rope(1, 1024, 12, 64, 64, dtype, how));
            cases.push_back(rope(2, 37, 2, 80, 32, dtype, how));
            cases.push_back(rope(1, 9, 3, 20, 6, dtype, how));
            // The kind with an amplitude; test/base has the angles of all kinds.
            how.scaling = RopeScaling{.kind = RopeScalingKind::yarn,
                                      .factor = 4,
                                      .original_max_position_embeddings = 4096};
            cases.push_back(rope(2, 37, 2, 80, 80, dtype, how));
        }
    }
    return cases;
}

}  // namespace gptrain
