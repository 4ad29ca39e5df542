#include "cuda/attention/params.h"

namespace gptrain::cuda {
namespace {

void check_heads(const Tensor& tensor, const Shape& shape, DType dtype) {
    GPTRAIN_CHECK(tensor.shape() == shape && tensor.dtype() == dtype &&
                      (tensor.stride(3) == 1 || shape[3] == 1),
                  "attention got ", tensor.shape().to_text(), " ", name_of(tensor.dtype()),
                  ", needs ", shape.to_text(), " ", name_of(dtype), ", features contiguous");
}

Shape shape_of(const AttentionParams& p, std::int64_t rows, std::int64_t heads) {
    return {p.sequences, rows, heads, p.head_dim};
}

}  // namespace

AttentionParams attention_params(const AttentionForward& args) {
    constexpr double log2_e = 1.4426950408889634;
    constexpr std::int64_t last_position = INT32_MAX / 4;
    AttentionParams p;
    GPTRAIN_CHECK(args.q.rank() == 4 && args.k.rank() == 4, "attention needs [B, S, heads, D]");
    p.sequences = gptrain::narrow<int>(args.q.size(0));
    p.queries = gptrain::narrow<int>(args.q.size(1));
    p.heads = gptrain::narrow<int>(args.q.size(2));
    p.head_dim = gptrain::narrow<int>(args.q.size(3));
    p.keys = gptrain::narrow<int>(args.k.size(1));
    p.groups = gptrain::narrow<int>(args.k.size(2));
    GPTRAIN_CHECK(p.head_dim <= max_head_dim, "head_dim ", p.head_dim, ", at most ", max_head_dim);
    GPTRAIN_CHECK(p.heads % p.groups == 0, p.heads, " heads in ", p.groups, " groups");
    p.group_heads = p.heads / p.groups;
    check_heads(args.q, shape_of(p, p.queries, p.heads), args.q.dtype());
    check_heads(args.k, shape_of(p, p.keys, p.groups), args.q.dtype());
    check_heads(args.v, shape_of(p, p.keys, p.groups), args.q.dtype());
    check_heads(args.o, shape_of(p, p.queries, p.heads), args.q.dtype());
    GPTRAIN_CHECK(args.q_begin >= 0 && args.q_begin + p.queries <= last_position &&
                      args.k_begin >= 0 && args.k_begin + p.keys <= last_position,
                  "attention at positions ", args.q_begin, " and ", args.k_begin);
    GPTRAIN_CHECK(args.lse.contiguous() &&
                      args.lse.elements() == std::int64_t{p.sequences} * p.heads * p.queries,
                  "lse is contiguous [B, N, Sq]");
    GPTRAIN_CHECK(args.o8.empty() || (p.head_dim == fp8_block && args.amax.empty()),
                  "FP8 rows of heads of ", p.head_dim);
    p.q = HeadTensor(args.q);
    p.k = HeadTensor(args.k);
    p.v = HeadTensor(args.v);
    p.o = HeadTensor(args.o);
    p.lse = args.lse.as<float>();
    if (!args.first_visible.empty()) {
        GPTRAIN_CHECK(args.first_visible.contiguous(), "first_visible is contiguous [B, Sq]");
        p.first_visible = args.first_visible.as<std::int32_t>();
    }
    p.q_begin = static_cast<int>(args.q_begin);
    p.k_begin = static_cast<int>(args.k_begin);
    p.diagonal = std::clamp(p.q_begin - p.k_begin, -p.queries, p.keys);
    const double scale = 1 / std::sqrt(static_cast<double>(p.head_dim));
    p.scale = static_cast<float>(scale);
    p.scale_log2 = static_cast<float>(args.changes_scores() ? log2_e : scale * log2_e);
    p.dropout = DropoutParams(args.dropout);
    p.softcap = args.softcap;
    if (args.softcap > 0) p.inverse_softcap = 1 / args.softcap;
    p.alibi = args.alibi;
    return p;
}

AttentionGradients attention_gradients(const AttentionBackward& args, const float* delta) {
    const AttentionForward& forward = args.forward;
    const DType dtype = args.accumulate ? DType::f32 : forward.q.dtype();
    GPTRAIN_CHECK(args.amax.empty() || !args.accumulate, "the amax of part of a sum");
    check_heads(args.d_o, forward.q.shape(), forward.q.dtype());
    check_heads(args.dq, forward.q.shape(), dtype);
    check_heads(args.dk, forward.k.shape(), dtype);
    check_heads(args.dv, forward.k.shape(), dtype);
    return {.d_o = HeadTensor(args.d_o),
            .dq = HeadTensor(args.dq),
            .dk = HeadTensor(args.dk),
            .dv = HeadTensor(args.dv),
            .delta = delta,
            .accumulate = args.accumulate};
}

}  // namespace gptrain::cuda
