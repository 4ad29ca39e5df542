// The loss over a vocabulary, for all rows n [B S, H] of a batch:
//
//   logits   = n W^T, with head_bias + b  [B S, V], with logit_softcap c then c tanh(logits / c)
//   loss_sum += sum over tokens of weight x cross_entropy(logits, target)
//
// Logits exist for one chunk of tokens at a time.
#pragma once

#include <span>

#include "model/context.h"
#include "model/parameters.h"

namespace gptrain {

/// How likely the model finds each target of a batch, in backend memory: log p = target's logit -
/// maximum - log(sum of exp(logit - maximum)).
struct TargetScores {
    Tensor maximum;  ///< fp32 [B S]: the largest logit
    Tensor sums;     ///< fp32 [B S, 2]: sum of exp(logit - maximum), target's logit
};

class VocabularyLoss {
public:
    /// `weight`: the name of W.
    VocabularyLoss(const ModelContext& context, const Parameters& parameters,
                   std::string_view weight)
        : context_(context),
          weight_(parameters.group(weight)),
          bias_(parameters.group("head.bias")) {}

    /// Rows of logits [R, V], aligned as the backend prefers.
    Tensor allocate_logits(Arena& arena, std::int64_t rows) const;
    /// The gradients of a loss; not computed if dn is empty. The weight's waits if there is memory
    /// for dlogits.
    struct Gradients {
        Tensor dn;       ///< shape of n
        Tensor dlogits;  ///< [B S, V]
    };
    /// Adds the batch's weighted loss to the step state, and fills the gradients. Adds that of the
    /// bias to main_grad, and that of the weight unless it waits.
    void add(const Tensor& n, const Gradients& gradients, const Pass& pass) const;
    /// Adds the weight gradient that has waited to main_grad.
    void weight_gradient(const Tensor& n, const Tensor& dlogits) const;
    /// scores = those of the batch's targets, on every rank of tp.
    void score(const Tensor& n, const Pass& pass, const TargetScores& scores) const;
    /// logits [R, V] of R rows of n in ascending order, without padding rows of V.
    void logits(const Tensor& n, std::span<const std::int64_t> rows, const Tensor& logits) const;

private:
    /// The rows of n [T, H] as [R, H]: n itself if these are all, else a copy in the workspace.
    Tensor chosen_rows(const Tensor& n, std::span<const std::int64_t> rows) const;
    float softcap() const { return static_cast<float>(context_.shape.logit_softcap.value_or(0)); }
    /// y [R, V] = the logits of x.
    void make_logits(const Tensor& x, const Tensor& y) const;
    /// y [R, V] = x W^T + b, with the int8 form of W if there is one, for any number of rows.
    void multiply(const Tensor& x, const Tensor& y) const;
    /// Overwrites the gradient if these are the `first` rows of a step and nothing clears it.
    void weight_gradient(const Tensor& n, const Tensor& dlogits, bool first) const;
    void cross_entropy(const CrossEntropy& args) const;
    /// Fills `scores` for the rows of logits, over the vocabulary of all ranks of tp.
    void score_targets(const Tensor& logits, const Tensor& targets,
                       const TargetScores& scores) const;

    const ModelContext& context_;
    GroupTensors weight_;
    GroupTensors bias_;
};

}  // namespace gptrain
