// The end of the model: final norm, logits, loss. The logits exist only for a chunk of tokens at a
// time.
#pragma once

#include "model/norm.h"

namespace gptrain {

/// What is kept from F to B: the norm's input, and the gradient of its output, since F already runs
/// the head's backward.
struct SavedHead {
    SavedNorm norm;
    Tensor dn;  ///< as norm.r
};

class Head {
public:
    Head(const ModelContext& context, const Parameters& parameters);

    /// Memory for `tokens` rows of the stream.
    SavedHead reserve(Arena& arena, std::int64_t tokens) const;

    /// Adds the batch's weighted loss to the step state, the weight gradient to main_grad, and
    /// fills saved.dn.
    void forward_backward(Stream& stream, const SavedHead& saved, const Pass& pass) const;
    /// Adds the loss alone; the stream is overwritten.
    void forward(Stream& stream, const StreamBuffers& buffers, const Pass& pass) const;
    /// logits [B, V] of the last token of each sequence, but for padding rows of V; the stream is
    /// overwritten.
    void last_logits(Stream& stream, const StreamBuffers& buffers, const Pass& pass,
                     const Tensor& logits) const;

    /// Starts the gradient of the stream: grad.dr, grad.dy. `branch`: the dropout of the last
    /// block's branch.
    void backward(const SavedHead& saved, StreamGrad& grad, const Dropout& branch,
                  const Pass& pass) const;

private:
    /// Elements from one row of logits to the next, as the backend likes them.
    std::int64_t row_stride(std::int64_t vocab) const;
    void loss(const Tensor& n, const Tensor& dn, const Pass& pass) const;
    void cross_entropy(const CrossEntropy& args) const;

    const ModelContext& context_;
    NormLayer norm_;
    GroupTensors weight_;  ///< wte where the embeddings are tied
};

}  // namespace gptrain
