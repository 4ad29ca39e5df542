// The end of the model:
//
//   n        = norm(r)  [T, H]
//   logits   = n W^T    [T, V]; W is head.weight, or wte.weight if tied
//   loss_sum += sum over tokens of weight x cross_entropy(logits, target)
//
// Logits exist for one chunk of tokens at a time.
#pragma once

#include <span>

#include "model/norm.h"

namespace gptrain {

/// What F keeps for B: the norm's input, and the gradient of its output, because F already runs the
/// head's backward.
struct SavedHead {
    SavedNorm norm;
    Tensor dn;  ///< shape of norm.r
};

/// How likely the model finds each target of a batch, in backend memory: log p = target's logit -
/// maximum - log(sum of exp(logit - maximum)).
struct TargetScores {
    Tensor maximum;  ///< fp32 [B S]: the largest logit
    Tensor sums;     ///< fp32 [B S, 2]: sum of exp(logit - maximum), target's logit
};

/// What F keeps for WH: the operands of the weight gradient.
struct DeferredHead {
    Tensor n;        ///< [T, H], T this rank's rows of the stream
    Tensor dlogits;  ///< [B S, V]
};

class Head {
public:
    Head(const ModelContext& context, const Parameters& parameters);

    /// Allocates what a batch of `tokens` tokens keeps.
    SavedHead reserve(Arena& arena, std::int64_t tokens) const;
    /// Allocates what a batch of `tokens` tokens leaves to WH.
    DeferredHead reserve_deferred(Arena& arena, std::int64_t tokens) const;

    /// Adds the batch's weighted loss to the step state and fills saved.dn. Adds the weight
    /// gradient to main_grad, or fills `deferred` if it is not empty.
    void forward_backward(Stream& stream, const SavedHead& saved, const DeferredHead& deferred,
                          const Pass& pass) const;
    /// WH: adds the weight gradient to main_grad.
    void weight_gradient(const DeferredHead& deferred) const;
    /// Adds the loss only. Overwrites the stream.
    void forward(Stream& stream, const StreamBuffers& buffers, const Pass& pass) const;
    /// scores = those of the batch's targets, on every rank of tp. Overwrites the stream.
    void score(Stream& stream, const StreamBuffers& buffers, const Pass& pass,
               const TargetScores& scores) const;
    /// logits [R, V] of R rows of the stream in ascending order, without padding rows of V.
    /// Overwrites the stream.
    void logits(Stream& stream, const StreamBuffers& buffers, const Pass& pass,
                std::span<const std::int64_t> rows, const Tensor& logits) const;

    /// Starts the gradient of the stream: grad.dr and grad.dy. `branch_dropout` is the dropout of
    /// the last block's branch.
    void backward(const SavedHead& saved, StreamGrad& grad, const Dropout& branch_dropout,
                  const Pass& pass) const;

private:
    /// The rows of n [T, H] as [R, H]: n itself if these are all, else a copy in the workspace.
    Tensor chosen_rows(const Tensor& n, std::span<const std::int64_t> rows) const;
    /// y [R, V] = x W^T, of the int8 form of W if there is one, however many rows there are.
    void multiply(const Tensor& x, const Tensor& y) const;
    /// Elements between rows of logits, aligned as the backend prefers.
    std::int64_t row_stride(std::int64_t vocab) const;
    /// Rows of logits, as the backend prefers them.
    Tensor allocate_logits(Arena& arena, std::int64_t rows) const;
    /// Gradients of a loss: none if dn is empty. The weight's waits if there is memory for dlogits.
    struct Gradients {
        Tensor dn;       ///< shape of n
        Tensor dlogits;  ///< [B S, V]
    };
    void loss(const Tensor& n, const Gradients& gradients, const Pass& pass) const;
    /// Overwrites the gradient if these are the `first` rows of a step and nothing clears it.
    void weight_gradient(const Tensor& n, const Tensor& dlogits, bool first) const;
    void cross_entropy(const CrossEntropy& args) const;
    /// Fills `scores` for the rows of logits, over the vocabulary of all ranks of tp.
    void score_targets(const Tensor& logits, const Tensor& targets,
                       const TargetScores& scores) const;
    /// n of all rows of the batch, of a stream that is not kept. Overwrites the stream.
    Tensor normalised(Stream& stream, const StreamBuffers& buffers, const Pass& pass) const;

    const ModelContext& context_;
    NormLayer norm_;
    GroupTensors weight_;  ///< wte if the embeddings are tied
};

}  // namespace gptrain
