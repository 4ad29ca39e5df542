#include "meter/work_of.h"

#include <algorithm>

#include "base/checked.h"

namespace gptrain {
namespace {

double gemm_flops(std::int64_t rows, std::int64_t cols, std::int64_t length) {
    return 2.0 * static_cast<double>(rows) * static_cast<double>(cols) *
           static_cast<double>(length);
}

/// Query-key pairs that the causal mask leaves visible, in one sequence and head, if query i has
/// position `q_begin` + i.
double causal_pairs(const AttentionForward& args, std::int64_t q_begin) {
    const std::int64_t queries = args.q.size(1);
    const std::int64_t keys = args.k.size(1);
    // Query i sees n_i = clamp(q_begin + i - k_begin + 1, 0, keys) keys: a ramp, then a plateau.
    const std::int64_t ramp_start = std::clamp<std::int64_t>(args.k_begin - q_begin, 0, queries);
    const std::int64_t ramp_end =
        std::clamp<std::int64_t>(args.k_begin - q_begin + keys, ramp_start, queries);
    const std::int64_t first = q_begin + ramp_start - args.k_begin + 1;
    const std::int64_t count = ramp_end - ramp_start;
    const double ramp = static_cast<double>(count) * static_cast<double>(2 * first + count - 1) / 2;
    return ramp + static_cast<double>(queries - ramp_end) * static_cast<double>(keys);
}

/// Behind a window are the keys that an earlier query would see.
double visible_pairs(const AttentionForward& args) {
    const double pairs = causal_pairs(args, args.q_begin);
    return args.window == 0 ? pairs : pairs - causal_pairs(args, args.q_begin - args.window);
}

double attention_flops(const AttentionForward& args, int gemms) {
    const double heads = static_cast<double>(args.q.size(0) * args.q.size(2));
    return 2.0 * gemms * heads * static_cast<double>(args.q.size(3)) * visible_pairs(args);
}

/// A GEMM that writes [rows, cols] and sums over `length`.
template <class Op>
OpWork gemm(const Op& op, const Tensor& operand, std::int64_t rows, std::int64_t cols,
            std::int64_t length) {
    return {.kind = OpWork::Kind::gemm,
            .dtype = operand.dtype(),
            .name = Op::name,
            .rows = rows,
            .cols = cols,
            .length = length,
            .flops = gemm_flops(rows, cols, length),
            .bytes = memory_traffic(op)};
}

/// Fewer rows than experts are as many GEMMs.
/// The rows of a grouped linear layer, in as many groups as experts have some.
struct GroupedRows {
    GroupedRows(const Tensor& x, std::int64_t expected, std::int64_t experts)
        : all(expected > 0 ? expected : x.size(0)),
          groups(std::clamp<std::int64_t>(all, 1, experts)),
          of_group(div_ceil(all, groups)) {}
    std::int64_t all;
    std::int64_t groups;
    std::int64_t of_group;
};

/// Widens the matrices of as many experts as can have rows.
template <class Op>
OpWork of_used_experts(const Op& op, std::int64_t experts) {
    const std::int64_t used = std::min(op.rows, experts);
    OpWork work;
    work.name = Op::name;
    work.bytes = memory_traffic(op) * static_cast<double>(used) / static_cast<double>(experts);
    return work;
}

template <class Op>
OpWork attention(const Op& op, const AttentionForward& args, OpWork::Kind kind, int gemms) {
    return {.kind = kind,
            .dtype = args.q.dtype(),
            .name = Op::name,
            .length = args.k.size(1),
            .head_dim = args.q.size(3),
            .flops = attention_flops(args, gemms),
            .bytes = memory_traffic(op)};
}

}  // namespace

OpWork work_of(const LinearForward& op) {
    const Tensor& x = op.x8.empty() ? op.x : op.x8.rowwise;
    OpWork work = gemm(op, x, op.y.size(0), op.y.size(1), x.size(1));
    if (!op.gelu.empty()) work.gelu_bytes = static_cast<double>(op.y.bytes() + op.gelu.bytes());
    return work;
}

OpWork work_of(const Int8LinearForward& op) {
    return gemm(op, op.x, op.y.size(0), op.y.size(1), op.x.size(1));
}

OpWork work_of(const Nf4LinearForward& op) {
    return gemm(op, op.x, op.y.size(0), op.y.size(1), op.x.size(1));
}

OpWork work_of(const LinearInputGrad& op) {
    const Tensor& dy = op.dy8.empty() ? op.dy : op.dy8.rowwise;
    OpWork work = gemm(op, dy, op.dx.size(0), op.dx.size(1), dy.size(1));
    if (!op.gelu_input.empty())
        work.gelu_gradient_bytes = static_cast<double>(op.gelu_input.bytes() + op.dx.bytes());
    return work;
}

OpWork work_of(const LinearWeightGrad& op) {
    const Tensor& x = op.x8.empty() ? op.x : op.x8.columnwise;
    const std::int64_t tokens = op.x8.empty() ? x.size(0) : x.size(1);
    return gemm(op, x, op.dweight.size(0), op.dweight.size(1), tokens);
}

OpWork work_of(const GroupedForward& op) {
    const GroupedRows rows(op.x, op.expected, op.weight.size(1));
    OpWork work = gemm(op, op.x, rows.of_group, op.y.size(1), op.x.size(1));
    work.groups = rows.groups;
    work.flops = gemm_flops(rows.all, op.y.size(1), op.x.size(1));
    return work;
}

OpWork work_of(const GroupedInputGrad& op) {
    const GroupedRows rows(op.dy, op.expected, op.weight.size(1));
    OpWork work = gemm(op, op.dy, rows.of_group, op.dx.size(1), op.dy.size(1));
    work.groups = rows.groups;
    work.flops = gemm_flops(rows.all, op.dx.size(1), op.dy.size(1));
    return work;
}

OpWork work_of(const GroupedWeightGrad& op) {
    const GroupedRows rows(op.x, op.expected, op.dweight.size(1));
    OpWork work = gemm(op, op.x, op.dy.size(1), op.x.size(1), rows.of_group);
    work.groups = rows.groups;
    work.flops = gemm_flops(op.dy.size(1), op.x.size(1), rows.all);
    return work;
}

OpWork work_of(const GroupedFromInt8& op) {
    return of_used_experts(op, op.out.size(1));
}

OpWork work_of(const GroupedFromNf4& op) {
    return of_used_experts(op, op.out.size(0));
}

OpWork work_of(const AttentionForward& op) {
    OpWork work = attention(op, op, OpWork::Kind::attention_forward, 2);
    if (!op.o8.empty())
        work.fp8_bytes = static_cast<double>(op.o8.rowwise.bytes() + op.o8.scale.bytes());
    return work;
}

OpWork work_of(const AttentionBackward& op) {
    return attention(op, op.forward, OpWork::Kind::attention_backward, 5);
}

OpWork work_of(const AdamW& op) {
    OpWork work;
    work.kind = OpWork::Kind::optimizer;
    work.name = AdamW::name;
    work.bytes = memory_traffic(op);
    return work;
}

}  // namespace gptrain
