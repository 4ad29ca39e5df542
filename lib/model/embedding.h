// Token and position embeddings, the start of the residual stream:
//
//   x = dropout(scale wte[ids] + wpe[positions])  [B S, H]
//
// or, with embedding_norm, the norm of that. Only learned positions have a wpe. Ids below 0 are
// virtual tokens (soft_prompt.h), which have no scale.
#pragma once

#include <optional>

#include "model/norm.h"
#include "model/soft_prompt.h"

namespace gptrain {

class Embedding {
public:
    Embedding(const ModelContext& context, const Parameters& parameters);

    /// Allocates what the norm of a batch of `tokens` tokens keeps; empty without one.
    SavedNorm reserve(Arena& arena, std::int64_t tokens) const {
        return norm_ ? norm_->reserve(arena, tokens) : SavedNorm();
    }
    /// Computes x [B S, H], and fills `kept` unless it is empty. The rows of wte are split over tp.
    void forward(const Pass& pass, const SavedNorm& kept, const Tensor& x) const;
    /// Adds the gradients of wte, wpe, the norm and virtual tokens, unless they are frozen.
    /// Overwrites dx.
    void backward(const Pass& pass, const SavedNorm& saved, const Tensor& dx) const;

private:
    void embed(const Pass& pass, const Tensor& x) const;
    void embed_backward(const Pass& pass, const Tensor& dx) const;
    /// As a number of the compute dtype.
    float token_scale() const;
    Dropout dropout(const Pass& pass) const {
        return pass.dropout(context_, DropoutSite::embedding, 0);
    }

    const ModelContext& context_;
    GroupTensors tokens_;
    GroupTensors positions_;  ///< empty with rotary positions
    VirtualTokens virtual_tokens_;
    std::optional<NormLayer> norm_;
    std::int64_t vocab_begin_;
};

}  // namespace gptrain
