// Token and position embeddings, the start of the residual stream:
//
//   x = dropout(wte[ids] + wpe[positions])  [B S, H]
//
// With rotary positions there is no wpe. Ids below 0 are virtual tokens (soft_prompt.h).
#pragma once

#include "model/context.h"
#include "model/parameters.h"
#include "model/soft_prompt.h"

namespace gptrain {

class Embedding {
public:
    Embedding(const ModelContext& context, const Parameters& parameters);

    /// Computes x [B S, H]. The rows of wte are split over tp.
    void forward(const Pass& pass, const Tensor& x) const;
    /// Adds the gradients of wte, wpe and virtual tokens, unless they are frozen. Overwrites dx.
    void backward(const Pass& pass, const Tensor& dx) const;

private:
    Dropout dropout(const Pass& pass) const {
        return pass.dropout(context_, DropoutSite::embedding, 0);
    }

    const ModelContext& context_;
    GroupTensors tokens_;
    GroupTensors positions_;  ///< empty with rotary positions
    VirtualTokens virtual_tokens_;
    std::int64_t vocab_begin_;
};

}  // namespace gptrain
