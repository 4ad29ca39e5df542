#include <array>
#include <cmath>

#include "cases.h"

namespace gptrain {
namespace {

struct Variant {
    std::int64_t sequences, queries, keys, heads, groups, head_dim;
    std::int64_t q_begin = 0;
    std::int64_t k_begin = 0;
    bool documents = false;  ///< first_visible is given
    float dropout = 0;
    bool large = false;
    float softcap = 0;
    std::int64_t alibi_heads = 0;  ///< of the whole model
    /// The amax of o, and of all gradients or of dv; or o8, in bf16.
    enum Fp8 { none, amax, amax_of_v, o8 } fp8 = none;
};

// B, Sq, Sk, N, G, D, then the members above.
constexpr Variant variants[] = {
    {1, 1, 1, 1, 1, 1},
    {1, 3, 3, 1, 1, 2},
    {2, 7, 7, 3, 1, 5},
    {2, 33, 33, 4, 2, 16, 0, 0, true},
    {1, 131, 131, 2, 2, 64},
    {1, 67, 67, 2, 1, 80, 0, 0, false, 0.2f},
    {1, 35, 35, 1, 1, 256},
    {1, 300, 300, 1, 1, 32},
    // A KV cache: new queries after the keys that it holds.
    {2, 1, 70, 4, 2, 16, 69, 0},
    {1, 5, 40, 2, 2, 8, 35, 0, true},
    // Few queries, for which the CPU needs no tiles: odd sizes, documents, all and no keys seen.
    {2, 3, 133, 6, 1, 84, 130, 0, true},
    {1, 1, 300, 5, 1, 128, 299, 0},
    {1, 2, 65, 2, 2, 72, 200, 3, true},
    {3, 4, 20, 2, 1, 64, 5, 7},
    // Rows whose document begins after these keys see none of them.
    {1, 25, 18, 2, 1, 16, 10, 0, true},
    // Part of the keys, as in ring attention: all visible, half of them, and rows that see none.
    {1, 20, 70, 2, 1, 32, 100, 10, false, 0.1f},
    {1, 66, 66, 2, 2, 16, 5, 37, false, 0.1f},
    {2, 9, 9, 2, 1, 16, 0, 50},
    // Several tiles of keys and queries, for kernels that support only these head dims.
    {1, 300, 300, 4, 2, 64},
    {2, 257, 257, 1, 1, 128},
    {1, 270, 270, 2, 1, 64, 0, 0, true, 0.2f},
    {1, 200, 200, 1, 1, 64, 100, 37, false, 0.1f},
    // Bidirectional: queries right behind all keys.
    {1, 140, 140, 2, 1, 64, 140, 0, false, 0.1f},
    {1, 140, 140, 2, 1, 128, 140, 0},
    // More heads than the emulated device has blocks, and than have sums of dq at a time.
    {1, 140, 140, 7, 7, 64},
    // Scores with a soft cap, with ALiBi, with both: tiles of all widths and the plain kernels, few
    // queries, documents, dropout, part of the keys.
    {2, 7, 7, 3, 1, 5, 0, 0, false, 0, false, 2, 12},
    {2, 33, 33, 4, 2, 16, 0, 0, true, 0, false, 0, 12},
    {1, 131, 131, 2, 2, 64, 0, 0, false, 0, false, 2},
    {1, 67, 67, 2, 1, 80, 0, 0, false, 0.2f, false, 2, 12},
    {1, 65, 65, 2, 1, 128, 0, 0, true, 0.5f, false, 2, 8},
    {1, 35, 35, 1, 1, 256, 0, 0, false, 0, false, 2, 12},
    {2, 3, 133, 6, 1, 84, 130, 0, true, 0, false, 2, 12},
    {1, 66, 66, 2, 2, 16, 5, 37, false, 0.1f, false, 2, 12},
    {2, 9, 9, 2, 1, 16, 0, 50, false, 0, false, 2, 12},
    // With the amax, for FP8: ends within a tile, rows that see nothing, heads in groups.
    {1, 131, 131, 2, 2, 64, 0, 0, false, 0, false, 0, 0, Variant::amax},
    {1, 257, 257, 1, 1, 128, 0, 0, false, 0, false, 0, 0, Variant::amax_of_v},
    {1, 130, 130, 2, 1, 128, 0, 0, true, 0.5f, false, 0, 0, Variant::amax},
    {1, 150, 150, 1, 1, 128, 0, 130, false, 0, false, 0, 0, Variant::amax},
    {2, 33, 33, 4, 2, 16, 0, 0, true, 0, false, 0, 0, Variant::amax},
    {1, 35, 35, 3, 3, 80, 0, 0, false, 0, false, 2, 0, Variant::amax_of_v},
    // With o8: blocks of the emulated device that take three tiles, rows that see nothing, dropout.
    {2, 100, 300, 4, 2, 128, 200, 0, true, 0, false, 0, 0, Variant::o8},
    {1, 150, 150, 1, 1, 128, 0, 130, false, 0, false, 0, 0, Variant::o8},
    {1, 65, 65, 2, 1, 128, 0, 0, true, 0.5f, false, 0, 0, Variant::o8},
    {4, 64, 64, 12, 12, 64, 0, 0, false, 0, true},
    {1, 1024, 1024, 12, 12, 64, 0, 0, false, 0, true},
    {1, 1024, 1024, 16, 4, 128, 0, 0, false, 0, true},
};

OpCase make_case(std::string_view name, const Variant& v, DType dtype) {
    OpLimits limits;
    limits.compute = dtype;
    limits.sequences = v.sequences;
    limits.seq_length = std::max(v.queries, v.keys);
    limits.heads = v.heads;
    limits.groups = v.groups;
    limits.head_dim = v.head_dim;
    OpCase op(text(name, " ", name_of(dtype), " B", v.sequences, " Sq", v.queries, " Sk", v.keys,
                   " N", v.heads, " G", v.groups, " D", v.head_dim, " q_begin ", v.q_begin,
                   " k_begin ", v.k_begin, v.documents ? " documents" : "", " dropout ", v.dropout,
                   v.softcap > 0 ? " softcap" : "", v.alibi_heads > 0 ? " alibi" : "",
                   std::array{"", " amax", " amax of v", " o8"}[v.fp8]),
              limits);
    op.large = v.large;
    // Causal: half of the square.
    op.flops = 2.0 * static_cast<double>(v.sequences * v.heads * v.queries * v.keys * v.head_dim);
    return op;
}

struct Qkv {
    Operand q, k, v;
};

/// q, k, v (or their gradients) packed as one linear layer's GEMM produces them.
Qkv packed(OpCase& op, const Variant& v, Role role, DType dtype, const Values& values) {
    const std::int64_t heads = v.heads + 2 * v.groups;
    const auto all = op.storage(dtype, {v.sequences * v.queries, heads * v.head_dim});
    const auto part = [&](std::int64_t begin, std::int64_t count) {
        return op.part(
            role, all,
            [=](const Tensor& product) {
                return product.view({v.sequences, v.queries, heads, v.head_dim})
                    .slice(2, begin, count);
            },
            values);
    };
    return {part(0, v.heads), part(v.heads, v.groups), part(v.heads + v.groups, v.groups)};
}

/// q on its own; k and v in a cache that has room for more keys.
Qkv cached(OpCase& op, const Variant& v, Role role, DType dtype, const Values& values) {
    const auto part = [&](std::int64_t heads, std::int64_t rows, std::int64_t capacity) {
        return op.part(
            role, op.storage(dtype, {v.sequences, capacity, heads, v.head_dim}),
            [=](const Tensor& cache) { return cache.slice(1, 0, rows); }, values);
    };
    return {part(v.heads, v.queries, v.queries), part(v.groups, v.keys, v.keys + 3),
            part(v.groups, v.keys, v.keys + 3)};
}

Qkv operands(OpCase& op, const Variant& v, Role role, DType dtype, const Values& values) {
    return v.queries == v.keys ? packed(op, v, role, dtype, values)
                               : cached(op, v, role, dtype, values);
}

/// Documents of different lengths; some rows begin one.
Operand first_visible(OpCase& op, const Variant& v) {
    if (!v.documents) return none;
    return op.input(DType::i32, {v.sequences, v.queries}, [v](std::int64_t i, PhiloxKey) {
        const std::int64_t position = v.q_begin + i % v.queries;
        return static_cast<double>(position / 13 * 13);
    });
}

Dropout dropout_with(const Variant& v) {
    Dropout dropout;
    dropout.probability = v.dropout;
    dropout.seed = 5;
    dropout.site = DropoutSite::attention;
    dropout.layer = 2;
    dropout.rows.first_begin = v.q_begin;
    dropout.head_begin = 6;
    return dropout;
}

/// The slopes begin before the last power of 2 of 12 heads.
Alibi alibi_of(const Variant& v) {
    return {.heads = v.alibi_heads, .head_begin = 6};
}

reference::AttentionInput input_of(Arrays& at, const Qkv& in, const Variant& v, Operand first,
                                   const reference::Mask& mask) {
    return {at[in.q], at[in.k],
            at[in.v], {v.q_begin, v.k_begin, at[first]},
            mask,     {v.softcap, alibi_of(v)}};
}

AttentionForward forward_args(const Tensors& at, const Qkv& in, const Variant& v, Operand first,
                              const reference::Mask& mask) {
    AttentionForward args;
    args.q = at[in.q];
    args.k = at[in.k];
    args.v = at[in.v];
    args.q_begin = v.q_begin;
    args.k_begin = v.k_begin;
    args.first_visible = at[first];
    args.dropout = dropout_of(mask, at);
    args.softcap = v.softcap;
    args.alibi = alibi_of(v);
    return args;
}

bool finds_amax(const Variant& v) {
    return v.fp8 == Variant::amax || v.fp8 == Variant::amax_of_v;
}
Operand amax_of(OpCase& op, const Variant& v) {
    return finds_amax(v) ? op.updated(DType::f32, {1}, constant(0x1p-20)) : none;
}

OpCase forward(const Variant& v, DType dtype) {
    OpCase op = make_case("attention_forward", v, dtype);
    const Qkv in = operands(op, v, Role::input, dtype, random_values(1.2));
    const auto o = op.output(dtype, {v.sequences, v.queries, v.heads, v.head_dim});
    const auto lse = op.output(DType::f32, {v.sequences, v.heads, v.queries});
    const auto amax = amax_of(op, v);
    Rows8 o8;
    if (v.fp8 == Variant::o8 && dtype == DType::bf16)
        o8 = Rows8(op, {v.sequences * v.queries, v.heads * v.head_dim});
    const auto first = first_visible(op, v);
    const auto mask = use_dropout(op, dropout_with(v));
    op.run = [=](Backend& backend, const Tensors& at) {
        AttentionForward args = forward_args(at, in, v, first, mask);
        args.o = at[o];
        args.lse = at[lse];
        args.amax = at[amax];
        args.o8 = o8.matrix(at);
        backend.run(args);
    };
    op.reference = [=](Arrays& at) {
        reference::attention_forward(input_of(at, in, v, first, mask), at[o], at[lse]);
        reference::update_amax(at.result(o), at[amax]);
        o8.reference(at, o);
    };
    return op;
}

/// For rows merged over more keys than are here, or over none at all.
Values merged_lse(const Variant& v) {
    if (v.q_begin + v.queries <= v.k_begin) return constant(-INFINITY);
    return random_values(0.3, std::log(static_cast<double>(v.keys)) + 3);
}

OpCase backward(const Variant& v, DType dtype, bool accumulate) {
    OpCase op =
        make_case(accumulate ? "attention_backward accumulate" : "attention_backward", v, dtype);
    op.flops *= 2.5;
    const Qkv in = operands(op, v, Role::input, dtype, random_values(0.8));
    const Shape q_shape = {v.sequences, v.queries, v.heads, v.head_dim};
    // With large ones dq and dk, but not dv, are large.
    const auto o = op.input(dtype, q_shape, random_values(v.fp8 == Variant::amax ? 20 : 0.5));
    const auto lse = op.input(DType::f32, {v.sequences, v.heads, v.queries}, merged_lse(v));
    const auto d_o = op.input(dtype, q_shape, random_values());
    const auto first = first_visible(op, v);
    const Qkv out = accumulate ? operands(op, v, Role::updated, DType::f32, random_values())
                               : operands(op, v, Role::output, dtype, Values());
    const auto amax = amax_of(op, v);
    const auto mask = use_dropout(op, dropout_with(v));
    op.run = [=](Backend& backend, const Tensors& at) {
        AttentionBackward args;
        args.forward = forward_args(at, in, v, first, mask);
        args.forward.o = at[o];
        args.forward.lse = at[lse];
        args.d_o = at[d_o];
        args.dq = at[out.q];
        args.dk = at[out.k];
        args.dv = at[out.v];
        args.accumulate = accumulate;
        args.amax = at[amax];
        args.amax_of_dv = v.fp8 == Variant::amax_of_v;
        backend.run(args);
    };
    op.reference = [=](Arrays& at) {
        for (const Operand gradient : {out.q, out.k, out.v}) {
            if (!accumulate) at[gradient] = Array(at[gradient].shape(), dtype);
        }
        reference::attention_backward(input_of(at, in, v, first, mask), at[o], at[lse], at[d_o],
                                      at[out.q], at[out.k], at[out.v]);
        reference::update_amax(at.result(out.v), at[amax]);
        if (v.fp8 == Variant::amax_of_v) return;
        reference::update_amax(at.result(out.q), at[amax]);
        reference::update_amax(at.result(out.k), at[amax]);
    };
    return op;
}

}  // namespace

std::vector<OpCase> attention_cases() {
    std::vector<OpCase> cases = merged_attention_cases();
    for (const DType dtype : compute_dtypes) {
        for (const Variant& variant : variants) {
            cases.push_back(forward(variant, dtype));
            cases.push_back(backward(variant, dtype, false));
            if (!finds_amax(variant)) cases.push_back(backward(variant, dtype, true));
        }
    }
    return cases;
}

}  // namespace gptrain
