#include "model/norm.h"

namespace gptrain {

void start_branch_gradient(const ModelContext& context, StreamGrad& grad,
                           const Dropout& branch_dropout, const Pass& pass) {
    grad.dy = {grad.dr, {}};
    if (branch_dropout.probability == 0) return;
    grad.dy = {.values = grad.dropped, .amax = grad.amax_pool.next()};
    context.backend.run(ApplyDropout{.x = grad.dr,
                                     .dropout = branch_dropout,
                                     .y = grad.dropped,
                                     .seq_length = pass.stream_length(context),
                                     .amax = grad.dy.amax});
}

NormLayer::NormLayer(const ModelContext& context, const Parameters& parameters,
                     const std::string& name)
    : context_(context),
      weight_(parameters.group(name + ".weight")),
      bias_(parameters.group(name + ".bias")) {
    GPTRAIN_CHECK(!weight_.weight.empty(), "no parameters named ", name);
}

Norm NormLayer::norm() const {
    return {.rms = context_.shape.normalization == Normalization::rmsnorm,
            .eps = static_cast<float>(context_.shape.norm_eps),
            .weight = weight_.weight,
            .bias = bias_.weight};
}

void NormLayer::reserve_statistics(SavedNorm& saved, Arena& arena, std::int64_t tokens) const {
    const Shape rows = {context_.stream_length(tokens)};
    if (!norm().rms) saved.mean = arena.allocate(DType::f32, rows);
    saved.rstd = arena.allocate(DType::f32, rows);
}

SavedNorm NormLayer::reserve(Arena& arena, std::int64_t tokens, const Tensor& r) const {
    SavedNorm saved;
    reserve_statistics(saved, arena, tokens);
    saved.r = r.empty() ? arena.allocate(context_.compute, context_.stream_shape(tokens)) : r;
    return saved;
}

SavedNorm NormLayer::with_workspace(SavedNorm kept, const Tensor& stream,
                                    std::int64_t tokens) const {
    if (kept.rstd.empty()) reserve_statistics(kept, context_.workspace(), tokens);
    if (kept.r.empty()) kept.r = stream;
    return kept;
}

void NormLayer::forward(Stream& stream, const SavedNorm& saved, const LinearOperand& n,
                        const Pass& pass) const {
    const bool has_branch = !stream.y.empty();
    GPTRAIN_CHECK(has_branch || stream.r.data() == saved.r.data(), "the stream is not saved");
    context_.backend.run(ResidualNormForward{.r = stream.r,
                                             .y = stream.y,
                                             .dropout = stream.dropout,
                                             .r_out = has_branch ? saved.r : Tensor(),
                                             .norm = norm(),
                                             .n = n.values,
                                             .mean = saved.mean,
                                             .rstd = saved.rstd,
                                             .seq_length = pass.stream_length(context_),
                                             .amax = n.amax,
                                             .n8 = n.rows8});
    stream = {.r = saved.r, .y = {}, .dropout = {}};
}

Tensor NormLayer::rebuild(const SavedNorm& saved) const {
    const Tensor n = context_.temporary(saved.r.shape());
    context_.backend.run(ResidualNormForward{.r = saved.r,
                                             .y = {},
                                             .dropout = {},
                                             .r_out = {},
                                             .norm = norm(),
                                             .n = n,
                                             .mean = saved.mean,
                                             .rstd = saved.rstd});
    return n;
}

void NormLayer::backward(const Tensor& dn, const SavedNorm& saved, StreamGrad& grad,
                         const Dropout& branch_dropout, const Pass& pass, bool accumulate) const {
    const bool drops = branch_dropout.probability > 0;
    grad.dy = {.values = drops ? grad.dropped : grad.dr, .amax = grad.amax_pool.next()};
    if (grad.takes_dy8) grad.dy.rows8 = grad.dy8;
    context_.backend.run(ResidualNormBackward{.dn = dn,
                                              .r = saved.r,
                                              .norm = norm(),
                                              .mean = saved.mean,
                                              .rstd = saved.rstd,
                                              .dr = grad.dr,
                                              .accumulate = accumulate,
                                              .dropout = branch_dropout,
                                              .dy = drops ? grad.dropped : Tensor(),
                                              .dweight = weight_.grad,
                                              .dbias = bias_.grad,
                                              .seq_length = pass.stream_length(context_),
                                              .amax = grad.dy.amax,
                                              .dy8 = grad.dy.rows8});
}

}  // namespace gptrain
