// The norm at the end of the residual stream, for a loss that reads all rows of a batch:
//
//   n = norm(r)  [T, H] on this rank, gathered to [B S, H]
#pragma once

#include "model/norm.h"
#include "model/slices.h"

namespace gptrain {

/// Kept from F to B: the norm's input, and the gradient of its output, because F already runs the
/// backward of the loss.
struct SavedHead {
    SavedNorm norm;
    Tensor dn;  ///< shape of norm.r
};

class FinalNorm {
public:
    FinalNorm(const ModelContext& context, const Parameters& parameters, const std::string& name)
        : context_(context), norm_(context, parameters, name) {}

    /// Allocates what a batch of `tokens` tokens keeps.
    SavedHead reserve(Arena& arena, std::int64_t tokens) const {
        return {.norm = norm_.reserve(arena, tokens),
                .dn = arena.allocate(context_.compute, context_.stream_shape(tokens))};
    }
    /// n of all rows of the batch, of a stream that is not kept. Overwrites the stream.
    Tensor forward(Stream& stream, const StreamBuffers& buffers, const Pass& pass) const {
        const SavedNorm saved = norm_.with_workspace({}, buffers.r, pass.batch.tokens());
        const Tensor n = context_.temporary(saved.r.shape());
        norm_.forward(stream, saved, {.values = n}, pass);
        return gather_rows(context_, n);
    }
    /// Fills n [T, H] and saved.dn. loss(rows, dn) gets all rows of n and fills their gradient, or
    /// this rank's part of it.
    void forward_backward(Stream& stream, const SavedHead& saved, const Tensor& n, const Pass& pass,
                          const auto& loss) const {
        norm_.forward(stream, saved.norm, {.values = n}, pass);
        const Tensor dn = allocate_whole(context_, saved.dn);
        loss(gather_rows(context_, n), dn);
        reduce_parts(context_, saved.dn, dn).wait();
    }
    /// Starts the gradient of the stream: grad.dr and grad.dy. `branch_dropout` is the dropout of
    /// the last block's branch.
    void backward(const SavedHead& saved, StreamGrad& grad, const Dropout& branch_dropout,
                  const Pass& pass) const {
        norm_.backward(saved.dn, saved.norm, grad, branch_dropout, pass, false);
    }

private:
    const ModelContext& context_;
    NormLayer norm_;
};

}  // namespace gptrain
