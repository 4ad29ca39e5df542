// The end of the model: the loss over the vocabulary of the normalised stream.
#pragma once

#include "model/final_norm.h"
#include "model/vocabulary_loss.h"

namespace gptrain {

/// Kept from F to WH: the operands of the weight gradient.
struct DeferredHead {
    Tensor n;        ///< [T, H], T this rank's rows of the stream
    Tensor dlogits;  ///< [B S, V]
};

class Head {
public:
    Head(const ModelContext& context, const Parameters& parameters)
        : context_(context),
          norm_(context, parameters, "ln_f"),
          loss_(context, parameters, head_matrix(context.shape)) {}

    const FinalNorm& norm() const { return norm_; }
    const VocabularyLoss& loss() const { return loss_; }

    /// Allocates what a batch of `tokens` tokens leaves to WH.
    DeferredHead reserve_deferred(Arena& arena, std::int64_t tokens) const {
        return {.n = arena.allocate(context_.compute, context_.stream_shape(tokens)),
                .dlogits = loss_.allocate_logits(arena, tokens)};
    }
    /// Adds the batch's weighted loss to the step state and fills saved.dn. Adds the weight
    /// gradient to main_grad, or fills `deferred` if it is not empty.
    void forward_backward(Stream& stream, const SavedHead& saved, const DeferredHead& deferred,
                          const Pass& pass) const {
        const ArenaFrame frame(context_.workspace());
        const Tensor own = context_.kept_or_temporary(deferred.n, saved.dn.shape());
        norm_.forward_backward(stream, saved, own, pass, [&](const Tensor& n, const Tensor& dn) {
            loss_.add(n, {.dn = dn, .dlogits = deferred.dlogits}, pass);
            context_.backend.run(CheckLoss{.step = pass.step});
        });
    }
    /// WH: adds the weight gradient to main_grad.
    void weight_gradient(const DeferredHead& deferred) const {
        const ArenaFrame frame(context_.workspace());
        loss_.weight_gradient(gather_rows(context_, deferred.n), deferred.dlogits);
    }

private:
    const ModelContext& context_;
    FinalNorm norm_;
    VocabularyLoss loss_;  ///< of wte if the embeddings are tied
};

}  // namespace gptrain
