#include "model/attention.h"

namespace gptrain {
namespace {

/// The heads [T, heads, D] of q or k as rows [T, heads D].
Tensor as_rows(const Tensor& x) {
    return x.view({x.size(0), x.size(1) * x.size(2)});
}

}  // namespace

void Attention::sum_squares(const SavedAttention& saved) const {
    const PackedQkv rows = split_rows(saved.linears.u);
    const auto sum = [&](const Tensor& x, std::int64_t i) {
        const Tensor all = as_rows(x);
        context_.backend.run(
            RowDots{.x = all, .z = all, .weight = {}, .dots = saved.squares.at(i)});
    };
    sum(rows.q, 0);
    sum(rows.k, 1);
    // Ranks that share a head of k add it once each, and count its features as often.
    context_.mesh.tp().all_reduce(saved.squares, Reduce::sum).wait();
}

RowNormForward Attention::row_norm(const Tensor& x, const GroupTensors& norm, const Tensor& squares,
                                   const Tensor& y) const {
    const Tensor rows = as_rows(x);
    return {.x = rows,
            .weight = norm.weight,
            .squares = squares,
            .width = rows.size(1) * context_.mesh.tp().size(),
            .eps = static_cast<float>(context_.shape.norm_eps),
            .y = y.empty() ? y : as_rows(y)};
}

void Attention::normalise(const SavedAttention& saved) const {
    const PackedQkv from = split_rows(saved.linears.u);
    const PackedQkv to = split_rows(saved.normalised);
    if (normalises_rows()) {
        const Tensor& squares = saved.squares;
        context_.backend.run(row_norm(from.q, q_norm_, squares.at(0), to.q));
        context_.backend.run(row_norm(from.k, k_norm_, squares.at(1), to.k));
        return;
    }
    const auto eps = static_cast<float>(context_.shape.norm_eps);
    context_.backend.run(
        HeadNormForward{.x = from.q, .weight = q_norm_.weight, .eps = eps, .y = to.q});
    context_.backend.run(
        HeadNormForward{.x = from.k, .weight = k_norm_.weight, .eps = eps, .y = to.k});
}

void Attention::norm_backward(const SavedAttention& saved, const Tensor& dqkv) const {
    if (normalises_rows()) return row_norm_backward(saved, dqkv);
    const auto eps = static_cast<float>(context_.shape.norm_eps);
    const PackedQkv x = split_rows(saved.linears.u);
    const PackedQkv dx = split_rows(dqkv);
    context_.backend.run(HeadNormBackward{.dy = dx.q,
                                          .x = x.q,
                                          .weight = q_norm_.weight,
                                          .eps = eps,
                                          .dx = dx.q,
                                          .dweight = q_norm_.grad});
    context_.backend.run(HeadNormBackward{.dy = dx.k,
                                          .x = x.k,
                                          .weight = k_norm_.weight,
                                          .eps = eps,
                                          .dx = dx.k,
                                          .dweight = k_norm_.grad});
}

void Attention::row_norm_backward(const SavedAttention& saved, const Tensor& dqkv) const {
    const ArenaFrame frame(context_.workspace());
    const PackedQkv x = split_rows(saved.linears.u);
    const PackedQkv dx = split_rows(dqkv);
    const Tensor dots = context_.temporary_f32(saved.squares.shape());
    const auto dot = [&](const Tensor& dy, const Tensor& of, const GroupTensors& norm,
                         std::int64_t i) {
        context_.backend.run(
            RowDots{.x = as_rows(dy), .z = as_rows(of), .weight = norm.weight, .dots = dots.at(i)});
    };
    dot(dx.q, x.q, q_norm_, 0);
    dot(dx.k, x.k, k_norm_, 1);
    context_.mesh.tp().all_reduce(dots, Reduce::sum).wait();
    const auto run = [&](const Tensor& dy, const Tensor& of, const GroupTensors& norm,
                         std::int64_t i) {
        context_.backend.run(RowNormBackward{.forward = row_norm(of, norm, saved.squares.at(i), {}),
                                             .dy = as_rows(dy),
                                             .dots = dots.at(i),
                                             .dx = as_rows(dy),
                                             .dweight = norm.grad});
    };
    run(dx.q, x.q, q_norm_, 0);
    run(dx.k, x.k, k_norm_, 1);
}

}  // namespace gptrain
