// Attention that is merged over parts of the keys, and its sinks.
#include <cmath>

#include "cases.h"

namespace gptrain {
namespace {

struct MergeVariant {
    std::int64_t sequences, queries, heads, head_dim;
    bool large = false;
};

// B, Sq, N, D.
constexpr MergeVariant merge_variants[] = {
    {1, 1, 1, 1},
    {2, 3, 2, 5},
    {2, 65, 3, 16},
    {1, 130, 2, 64},
    {2, 33, 1, 80},
    {1, 20, 5, 128},
    {1, 7, 2, 256},
    {1, 70, 3, 40},
    {1, 4096, 16, 128, true},
    {1, 4096, 12, 64, true},
};

/// Keeps o at 0 where a side has seen nothing, one row in every `period`.
Values merged_o(const MergeVariant& v, std::int64_t period) {
    return [=, values = random_values()](std::int64_t i, PhiloxKey stream) {
        const std::int64_t query = i / (v.heads * v.head_dim) % v.queries;
        return query % period == 1 ? 0 : values(i, stream);
    };
}
Values lse_of_side(const MergeVariant& v, std::int64_t period) {
    return [=, values = random_values(3, 5)](std::int64_t i, PhiloxKey stream) {
        return i % v.queries % period == 1 ? -INFINITY : values(i, stream);
    };
}

/// Sums over all queries, some of which come later.
OpCase merge(const MergeVariant& v, DType dtype, bool accumulate) {
    OpLimits limits;
    limits.compute = dtype;
    OpCase op(text("merge_attention", accumulate ? " accumulate " : " ", name_of(dtype), " B",
                   v.sequences, " Sq", v.queries, " N", v.heads, " D", v.head_dim),
              limits);
    op.large = v.large;
    const std::int64_t before = v.head_dim % 2 == 0 ? 4 : 3;
    const auto some = [=](int dim) {
        return [=](const Tensor& all) { return all.slice(dim, before, v.queries); };
    };
    const Role role = accumulate ? Role::updated : Role::output;
    const Shape rows = {v.sequences, v.queries, v.heads, v.head_dim};
    const auto o = op.input(dtype, rows, merged_o(v, 5));
    const auto lse = op.input(DType::f32, {v.sequences, v.heads, v.queries}, lse_of_side(v, 5));
    const auto o_sum = op.part(
        role, op.storage(DType::f32, {v.sequences, v.queries + before + 1, v.heads, v.head_dim}),
        some(1), merged_o(v, 7));
    const auto lse_sum =
        op.part(role, op.storage(DType::f32, {v.sequences, v.heads, v.queries + before + 1}),
                some(2), lse_of_side(v, 7));
    op.run = [=](Backend& backend, const Tensors& at) {
        backend.run(MergeAttention{at[o], at[lse], at[o_sum], at[lse_sum], accumulate});
    };
    op.reference = [=](Arrays& at) {
        if (!accumulate) {
            for (Bounded& x : at[lse_sum].values())
                x = -INFINITY;
            for (Bounded& x : at[o_sum].values())
                x = 0;
        }
        reference::merge_attention(at[o], at[lse], at[o_sum], at[lse_sum]);
    };
    return op;
}

OpCase sink_case(std::string_view name, const MergeVariant& v, DType dtype) {
    OpLimits limits;
    limits.compute = dtype;
    limits.sequences = v.sequences;
    limits.seq_length = v.queries;
    limits.heads = limits.groups = v.heads;
    limits.head_dim = v.head_dim;
    OpCase op(text(name, " ", name_of(dtype), " B", v.sequences, " Sq", v.queries, " N", v.heads,
                   " D", v.head_dim),
              limits);
    op.large = v.large;
    return op;
}

/// o of some queries; others come before and after.
Operand some_rows(OpCase& op, const MergeVariant& v, Role role, DType dtype, const Values& values) {
    return op.part(
        role, op.storage(dtype, {v.sequences, v.queries + 4, v.heads, v.head_dim}),
        [=](const Tensor& all) { return all.slice(1, 2, v.queries); }, values);
}

/// `merged`: o is in fp32, as after MergeAttention.
OpCase sink_forward(const MergeVariant& v, DType dtype, bool merged) {
    OpCase op = sink_case(merged ? "sink_forward merged" : "sink_forward", v, dtype);
    const auto sinks = op.input(dtype, {v.heads}, random_values(3, 5));
    const auto o = some_rows(op, v, Role::updated, merged ? DType::f32 : dtype, merged_o(v, 5));
    const auto lse = op.updated(DType::f32, {v.sequences, v.heads, v.queries}, lse_of_side(v, 5));
    op.run = [=](Backend& backend, const Tensors& at) {
        backend.run(SinkForward{at[sinks], at[o], at[lse]});
    };
    op.reference = [=](Arrays& at) { reference::sink_forward(at[sinks], at[o], at[lse]); };
    return op;
}

OpCase sink_backward(const MergeVariant& v, DType dtype) {
    OpCase op = sink_case("sink_backward", v, dtype);
    const auto sinks = op.input(dtype, {v.heads}, random_values(1, 2));
    const auto o = some_rows(op, v, Role::input, dtype, random_values());
    const auto lse = op.input(DType::f32, {v.sequences, v.heads, v.queries}, random_values(0.5, 4));
    const auto d_o = some_rows(op, v, Role::input, dtype, random_values());
    const auto dsinks = op.updated(DType::f32, {v.heads}, random_values());
    op.run = [=](Backend& backend, const Tensors& at) {
        backend.run(SinkBackward{at[sinks], at[o], at[lse], at[d_o], at[dsinks]});
    };
    op.reference = [=](Arrays& at) {
        reference::sink_backward(at[sinks], at[o], at[lse], at[d_o], at[dsinks]);
    };
    return op;
}

}  // namespace

std::vector<OpCase> merged_attention_cases() {
    std::vector<OpCase> cases;
    for (const DType dtype : compute_dtypes) {
        for (const MergeVariant& variant : merge_variants) {
            cases.push_back(merge(variant, dtype, false));
            cases.push_back(merge(variant, dtype, true));
            cases.push_back(sink_forward(variant, dtype, false));
            if (dtype != DType::f32) cases.push_back(sink_forward(variant, dtype, true));
            cases.push_back(sink_backward(variant, dtype));
        }
    }
    return cases;
}

}  // namespace gptrain
