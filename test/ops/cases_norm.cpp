#include "cases.h"

namespace gptrain {
namespace {

struct Size {
    std::int64_t sequences, seq_length, hidden;
    bool large = false;
    std::int64_t tokens() const { return sequences * seq_length; }
};

constexpr Size sizes[] = {
    {1, 1, 1},    {1, 3, 7},    {2, 5, 64},   {3, 7, 131},  {1, 2, 1031},
    {2, 250, 33}, {1, 36, 768}, {2, 2, 1600}, {1, 2, 9216}, {1, 1024, 768, true},
};

/// Which of the op's optional parts are present.
struct Variant {
    const char* name;
    bool rms = false;
    bool bias = true;
    bool y = true;
    float dropout = 0;
    bool in_place = false;   ///< sum, forward, dropout
    bool accumulate = true;  ///< backward
    double mean = 0;         ///< of the norm's input
    bool amax = false;
    bool weight_grad = true;  ///< backward
    bool fp8 = false;         ///< forward, which then also writes it alone; backward
};

OpCase make_case(std::string_view op, const Variant& variant, const Size& size, DType dtype) {
    OpLimits limits;
    limits.compute = dtype;
    limits.sequences = size.sequences;
    limits.seq_length = size.seq_length;
    limits.hidden = size.hidden;
    OpCase result(text(op, " ", variant.name, " ", name_of(dtype), " B", size.sequences, " S",
                       size.seq_length, " H", size.hidden),
                  limits);
    result.large = size.large;
    return result;
}

/// Positions in two runs, as in a slice of context parallelism.
Dropout dropout_at(DropoutSite site, float probability) {
    Dropout dropout;
    dropout.probability = probability;
    dropout.seed = 0x123456789abcull;
    dropout.site = site;
    dropout.layer = 3;
    dropout.rows = {4, 2, 1000};
    return dropout;
}

/// r_out = r + dropout(y), `mask` being the dropout's.
void sum_reference(const reference::Mask& mask, std::int64_t seq_length, Operand r, Operand y,
                   Operand r_out, Arrays& at) {
    Array branch = at[y];
    reference::dropout(mask, seq_length, branch);
    for (std::size_t i = 0; i < branch.values().size(); ++i)
        branch.values()[i] += at[r].values()[i];
    at[r_out].values() = branch.values();
}

OpCase residual_add(const Variant& variant, const Size& size, DType dtype) {
    OpCase op = make_case("residual_add", variant, size, dtype);
    const Shape shape = {size.tokens(), size.hidden};
    const auto r = variant.in_place ? op.updated(dtype, shape, random_values())
                                    : op.input(dtype, shape, random_values());
    const auto y = op.input(dtype, shape, random_values());
    const auto r_out = variant.in_place ? r : op.output(dtype, shape);
    const auto mask = use_dropout(op, dropout_at(DropoutSite::mlp_output, variant.dropout));
    op.run = [=](Backend& backend, const Tensors& at) {
        backend.run(ResidualAdd{at[r], at[y], dropout_of(mask, at), at[r_out], size.seq_length});
    };
    op.reference = [=](Arrays& at) { sum_reference(mask, size.seq_length, r, y, r_out, at); };
    return op;
}

OpCase forward(const Variant& variant, const Size& size, DType dtype) {
    OpCase op = make_case("residual_norm_forward", variant, size, dtype);
    const Shape shape = {size.tokens(), size.hidden};
    const Rows8 beside = variant.fp8 ? Rows8(op, shape) : Rows8();
    const Rows8 alone = variant.fp8 ? Rows8(op, shape) : Rows8();
    const auto r_values = random_values(1, variant.mean);
    const auto r =
        variant.in_place ? op.updated(dtype, shape, r_values) : op.input(dtype, shape, r_values);
    const auto y = variant.y ? op.input(dtype, shape, random_values()) : none;
    const auto r_out = !variant.y ? none : variant.in_place ? r : op.output(dtype, shape);
    const auto weight = op.input(dtype, {size.hidden}, random_values(0.5, 1));
    const auto bias = variant.bias ? op.input(dtype, {size.hidden}, random_values()) : none;
    const auto n = op.output(dtype, shape);
    const auto mean = variant.rms ? none : op.output(DType::f32, {size.tokens()});
    const auto rstd = op.output(DType::f32, {size.tokens()});
    const auto amax = variant.amax ? op.updated(DType::f32, {1}, constant(0)) : none;
    const auto mask = use_dropout(op, dropout_at(DropoutSite::mlp_output, variant.dropout));
    const reference::NormKind kind = {variant.rms, 1e-3f};

    op.run = [=](Backend& backend, const Tensors& at) {
        ResidualNormForward args;
        args.r = at[r];
        args.y = at[y];
        args.dropout = dropout_of(mask, at);
        args.r_out = at[r_out];
        args.norm = {kind.rms, kind.eps, at[weight], at[bias]};
        args.n = at[n];
        args.mean = at[mean];
        args.rstd = at[rstd];
        args.seq_length = size.seq_length;
        args.amax = at[amax];
        args.n8 = beside.matrix(at);
        backend.run(args);
        if (!variant.fp8) return;
        args.n = {};
        args.n8 = alone.matrix(at);
        backend.run(args);
    };
    op.reference = [=](Arrays& at) {
        beside.reference(at, n);
        alone.reference(at, n);
        if (variant.y) sum_reference(mask, size.seq_length, r, y, r_out, at);
        Array sum = at[variant.y ? r_out : r];
        for (Bounded& x : sum.values())
            if (variant.y) x = stored(x, dtype);
        reference::norm_forward(kind, sum, at[weight], at[bias], at[n], at[mean], at[rstd]);
        reference::update_amax(at.result(n), at[amax]);
    };
    return op;
}

OpCase backward(const Variant& variant, const Size& size, DType dtype) {
    OpCase op = make_case("residual_norm_backward", variant, size, dtype);
    const Shape shape = {size.tokens(), size.hidden};
    const Shape per_token = {size.tokens()};
    const auto dn = op.input(dtype, shape, random_values());
    const auto r = op.input(dtype, shape, random_values(1, variant.mean));
    const auto weight = op.input(dtype, {size.hidden}, random_values(0.5, 1));
    const auto mean =
        variant.rms ? none : op.input(DType::f32, per_token, random_values(0.1, variant.mean));
    const auto rstd = op.input(DType::f32, per_token, random_values(0.1, 1));
    const auto dr =
        variant.accumulate ? op.updated(dtype, shape, random_values()) : op.output(dtype, shape);
    const auto dy = variant.dropout > 0 ? op.output(dtype, shape) : none;
    const auto dweight =
        variant.weight_grad ? op.updated(DType::f32, {size.hidden}, random_values()) : none;
    const auto dbias = variant.bias ? op.updated(DType::f32, {size.hidden}, random_values()) : none;
    const auto amax = variant.amax ? op.updated(DType::f32, {1}, constant(0)) : none;
    const Rows8 dy8 = variant.fp8 ? Rows8(op, shape) : Rows8();
    const auto mask = use_dropout(op, dropout_at(DropoutSite::attention_output, variant.dropout));

    op.run = [=](Backend& backend, const Tensors& at) {
        ResidualNormBackward args;
        args.dn = at[dn];
        args.r = at[r];
        args.norm = {variant.rms, 1e-3f, at[weight], Tensor()};
        args.mean = at[mean];
        args.rstd = at[rstd];
        args.dr = at[dr];
        args.accumulate = variant.accumulate;
        args.dropout = dropout_of(mask, at);
        args.dy = at[dy];
        args.dweight = at[dweight];
        args.dbias = at[dbias];
        args.seq_length = size.seq_length;
        args.amax = at[amax];
        args.dy8 = dy8.matrix(at);
        backend.run(args);
    };
    op.reference = [=](Arrays& at) {
        dy8.reference(at, variant.dropout > 0 ? dy : dr);
        if (!variant.accumulate) at[dr] = Array(shape, dtype);
        reference::norm_backward(at[dn], at[r], at[weight], at[mean], at[rstd], at[dr], at[dweight],
                                 at[dbias]);
        reference::update_amax(at.result(variant.dropout > 0 ? dy : dr), at[amax]);
        if (variant.dropout == 0) return;
        at[dy].values() = at[dr].values();
        for (Bounded& x : at[dy].values())
            x = stored(x, dtype);
        reference::dropout(mask, size.seq_length, at[dy]);
    };
    return op;
}

OpCase apply_dropout(const Variant& variant, const Size& size, DType dtype) {
    OpCase op = make_case("apply_dropout", variant, size, dtype);
    const Shape shape = {size.tokens(), size.hidden};
    const auto dr = variant.in_place ? op.updated(dtype, shape, random_values())
                                     : op.input(dtype, shape, random_values());
    const auto dy = variant.in_place ? dr : op.output(dtype, shape);
    // One variant starts with an amax above all values.
    const auto before = constant(variant.in_place ? 0 : 100);
    const auto amax = variant.amax ? op.updated(DType::f32, {1}, before) : none;
    Dropout dropout = dropout_at(DropoutSite::mlp_output, 0.5f);
    if (variant.in_place) dropout.feature_begin = 52;
    const auto mask = use_dropout(op, dropout);
    op.run = [=](Backend& backend, const Tensors& at) {
        backend.run(ApplyDropout{at[dr], dropout_of(mask, at), at[dy], size.seq_length, at[amax]});
    };
    op.reference = [=](Arrays& at) {
        at[dy].values() = at[dr].values();
        reference::dropout(mask, size.seq_length, at[dy]);
        reference::update_amax(at.result(dy), at[amax]);
    };
    return op;
}

constexpr Variant sum_variants[] = {
    {.name = "dropout", .dropout = 0.5f},
    {.name = "in place", .in_place = true},
    {.name = "in place, dropout", .dropout = 0.1f, .in_place = true},
};

constexpr Variant forward_variants[] = {
    {.name = "layernorm"},
    {.name = "layernorm, no bias, dropout", .bias = false, .dropout = 0.1f},
    {.name = "layernorm, first block", .y = false},
    {.name = "layernorm, large mean", .y = false, .mean = 40},
    {.name = "rmsnorm, in place", .rms = true, .bias = false, .in_place = true},
    {.name = "rmsnorm, bias, first block", .rms = true, .y = false},
    {.name = "layernorm, dropout, amax", .dropout = 0.1f, .amax = true},
    {.name = "rmsnorm, first block, amax", .rms = true, .y = false, .amax = true},
};

constexpr Variant backward_variants[] = {
    {.name = "layernorm"},
    {.name = "layernorm, no bias, dropout", .bias = false, .dropout = 0.1f},
    {.name = "layernorm, overwrites", .accumulate = false},
    {.name = "layernorm, large mean", .mean = 40},
    {.name = "rmsnorm", .rms = true, .bias = false},
    {.name = "rmsnorm, bias, dropout, overwrites",
     .rms = true,
     .dropout = 0.5f,
     .accumulate = false},
    {.name = "layernorm, amax", .amax = true},
    {.name = "layernorm, weight frozen", .weight_grad = false},
    {.name = "rmsnorm, frozen", .rms = true, .bias = false, .weight_grad = false},
    {.name = "rmsnorm, dropout, amax", .rms = true, .dropout = 0.5f, .amax = true},
};

// A row by one warp, by several, in one turn of a thread and in several, with idle lanes, and
// longer than registers hold.
constexpr Size fp8_sizes[] = {{1, 3, 128},  {2, 3, 768},   {1, 3, 1664},
                              {1, 2, 4224}, {1, 2, 12416}, {1, 2, 16512}};

constexpr Variant fp8_forward_variants[] = {
    {.name = "layernorm, FP8", .fp8 = true},
    {.name = "rmsnorm, first block, FP8", .rms = true, .bias = false, .y = false, .fp8 = true},
};

constexpr Variant fp8_backward_variants[] = {
    {.name = "layernorm, FP8", .fp8 = true},
    {.name = "rmsnorm, dropout, overwrites, FP8",
     .rms = true,
     .bias = false,
     .dropout = 0.1f,
     .accumulate = false,
     .fp8 = true},
};

constexpr Variant dropout_variants[] = {
    {.name = "in place", .in_place = true},
    {.name = "apart"},
    {.name = "in place, amax", .in_place = true, .amax = true},
    {.name = "apart, amax", .amax = true},
};

}  // namespace

std::vector<OpCase> norm_cases() {
    std::vector<OpCase> cases;
    for (const DType dtype : compute_dtypes) {
        for (const Size& size : sizes) {
            for (const auto& variant : sum_variants)
                cases.push_back(residual_add(variant, size, dtype));
            for (const auto& variant : forward_variants)
                cases.push_back(forward(variant, size, dtype));
            for (const auto& variant : backward_variants)
                cases.push_back(backward(variant, size, dtype));
            for (const auto& variant : dropout_variants)
                cases.push_back(apply_dropout(variant, size, dtype));
        }
    }
    for (const Size& size : fp8_sizes) {
        for (const auto& variant : fp8_forward_variants)
            cases.push_back(forward(variant, size, DType::bf16));
        for (const auto& variant : fp8_backward_variants)
            cases.push_back(backward(variant, size, DType::bf16));
    }
    return cases;
}

}  // namespace gptrain
