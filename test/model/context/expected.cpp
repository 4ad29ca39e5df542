#include "expected.h"

#include <cmath>

namespace gptrain::test {
namespace {

using Values = gptrain::Array;
using Slices = std::vector<SequenceSlice>;

/// Product of the sizes from a dim on.
std::int64_t product_from(const Shape& shape, int dim) {
    std::int64_t product = 1;
    for (; dim < shape.rank(); ++dim)
        product *= shape[dim];
    return product;
}

/// Calls f(index in the part, index in the whole) for each element of the slices along `dim`.
template <class F>
void for_each_of_part(const Shape& whole, int dim, const Slices& slices, const F& f) {
    const std::int64_t inner = product_from(whole, dim + 1);
    const std::int64_t outer = whole.elements() / product_from(whole, dim);
    std::size_t part = 0;
    for (std::int64_t i = 0; i < outer; ++i) {
        for (const SequenceSlice& slice : slices) {
            const std::int64_t begin = (i * whole[dim] + slice.begin) * inner;
            for (std::int64_t j = 0; j < slice.length * inner; ++j)
                f(part++, static_cast<std::size_t>(begin + j));
        }
    }
}

void put_part(Values& whole, int dim, const SequenceSlice& slice, const Values& part) {
    for_each_of_part(whole.shape(), dim, {slice}, [&](std::size_t i, std::size_t in_whole) {
        whole.values()[in_whole] = part.values()[i];
    });
}

void round_to(Values& x, DType dtype) {
    for (Bounded& value : x.values())
        value = stored(value, dtype);
}

/// q, k and v of whole sequences.
struct Inputs {
    Values q, k, v, first_visible, d_o;
    reference::Mask mask;
    std::int64_t first_query = 0;  ///< as in ContextForward
    reference::ScoreRule rule;
    Values sinks;  ///< empty without
};

reference::AttentionInput input_of(const Inputs& in) {
    return {in.q, in.k, in.v, {in.first_query, 0, in.first_visible}, in.mask, in.rule};
}

void add_sinks(const Inputs& in, Values& o, Values& lse) {
    if (!in.sinks.empty()) reference::sink_forward(in.sinks, o, lse);
}

Values part_or_none(const Values& x, int dim, const SequenceSlice& slice) {
    return x.empty() ? x : part_of(x, dim, {slice});
}

/// o and lse of one slice of queries, merged over the slices of keys.
struct Merged {
    Values o;
    Values lse;
};
Merged attend(const Inputs& in, const SequenceSlice& queries, const Slices& keys, DType dtype) {
    const Values q = part_of(in.q, 1, {queries});
    const Values first_visible = part_or_none(in.first_visible, 1, queries);
    Merged sum = {Values(q.shape()), Values(Shape{q.size(0), q.size(2), q.size(1)})};
    for (Bounded& lse : sum.lse.values())
        lse = -INFINITY;
    for (const SequenceSlice& slice : keys) {
        Merged part = sum;
        const Values k = part_of(in.k, 1, {slice});
        const Values v = part_of(in.v, 1, {slice});
        reference::attention_forward({q,
                                      k,
                                      v,
                                      {in.first_query + queries.begin, slice.begin, first_visible},
                                      in.mask,
                                      in.rule},
                                     part.o, part.lse);
        round_to(part.o, dtype);
        round_to(part.lse, DType::f32);
        reference::merge_attention(part.o, part.lse, sum.o, sum.lse);
    }
    add_sinks(in, sum.o, sum.lse);
    return sum;
}

/// The slices of keys that rank `rank` attends to, in its order.
Slices keys_in_order(const ContextCase& c, int ranks, int rank) {
    Slices keys;
    for (int step = 0; step < ranks; ++step) {
        for (const SequenceSlice& slice :
             context_slices(c.seq_length, ranks, (rank + ranks - step) % ranks, c.method))
            keys.push_back(slice);
    }
    return keys;
}

Expected expected_forward(const ContextCase& c, const Inputs& in, int ranks) {
    Expected result;
    result.o = Values(in.q.shape(), c.dtype);
    result.lse = Values(Shape{c.sequences, c.heads, c.seq_length}, DType::f32);
    if (c.method == ContextMethod::all_to_all) {
        reference::attention_forward(input_of(in), result.o, result.lse);
        round_to(result.o, c.dtype);
        add_sinks(in, result.o, result.lse);
        return result;
    }
    for (int rank = 0; rank < ranks; ++rank) {
        for (const SequenceSlice& queries : context_slices(c.seq_length, ranks, rank, c.method)) {
            const Merged merged = attend(in, queries, keys_in_order(c, ranks, rank), c.dtype);
            put_part(result.o, 1, queries, merged.o);
            put_part(result.lse, 2, queries, merged.lse);
        }
    }
    return result;
}

}  // namespace

WholeInputs::WholeInputs(const ContextCase& c)
    : qkv(c.dtype, {c.sequences, c.seq_length, c.heads + 2 * c.groups, c.head_dim},
          random_values(1.2), 1),
      d_o(c.dtype, {c.sequences, c.seq_length, c.heads, c.head_dim}, random_values(), 2),
      first_visible(DType::i32, {c.sequences, c.seq_length},
                    [&](std::int64_t i, PhiloxKey) {
                        // Documents of different lengths, none of which ends with a slice.
                        return static_cast<double>(i % c.seq_length / 13 * 13);
                    }),
      sinks(c.dtype, {c.heads}, random_values(1, 1), 4) {
    mask.dropout.probability = c.dropout;
    mask.dropout.seed = 5;
    mask.dropout.site = DropoutSite::attention;
    mask.dropout.layer = 2;
    mask.dropout.head_begin = 6;
    mask.step = 7;
    mask.first_sequence = 11;
}

gptrain::Array part_of(const gptrain::Array& whole, int dim, const Slices& slices) {
    Shape shape = whole.shape();
    shape[dim] = length_of(slices);
    Values part(shape, whole.dtype());
    for_each_of_part(whole.shape(), dim, slices, [&](std::size_t i, std::size_t in_whole) {
        part.values()[i] = whole.values()[in_whole];
    });
    return part;
}

Expected expected(const ContextCase& c, const WholeInputs& inputs, int ranks) {
    const SequenceSlice q = {0, c.heads};
    const SequenceSlice k = {c.heads, c.groups};
    const SequenceSlice v = {c.heads + c.groups, c.groups};
    const Values qkv = to_array(inputs.qkv.tensor());
    Inputs in = {part_of(qkv, 2, {q}),
                 part_of(qkv, 2, {k}),
                 part_of(qkv, 2, {v}),
                 c.documents ? to_array(inputs.first_visible.tensor()) : Values(),
                 to_array(inputs.d_o.tensor()),
                 inputs.mask,
                 c.first_query(),
                 {},
                 {}};
    if (c.scores) {
        in.rule = {.softcap = 2, .alibi = {.heads = c.heads}};
        in.sinks = to_array(inputs.sinks.tensor());
    }
    Expected result = expected_forward(c, in, ranks);
    round_to(result.o, c.dtype);
    round_to(result.lse, DType::f32);
    Values dq(in.q.shape(), c.dtype), dk(in.k.shape(), c.dtype), dv(in.v.shape(), c.dtype);
    reference::attention_backward(input_of(in), result.o, result.lse, in.d_o, dq, dk, dv);
    result.dqkv = Values(qkv.shape(), c.dtype);
    put_part(result.dqkv, 2, q, dq);
    put_part(result.dqkv, 2, k, dk);
    put_part(result.dqkv, 2, v, dv);
    round_to(result.dqkv, c.dtype);
    result.dsinks = Values(Shape{c.heads}, DType::f32);
    if (c.scores) reference::sink_backward(in.sinks, result.o, result.lse, in.d_o, result.dsinks);
    return result;
}

}  // namespace gptrain::test
