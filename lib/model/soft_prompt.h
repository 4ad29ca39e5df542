// Virtual tokens (SoftPrompt of the plan). Token j of P has the id j - P, below all ids of the
// vocabulary, and its embedding is row j of a table that is trained:
//
//   x[t] += table[ids[t] + P]  for ids[t] < 0         x [T, H], table [P, H]
//
// Prompt tuning trains the table itself. P-tuning trains what computes it from embeddings e [P, H]:
//
//   table = relu(relu(e W0^T + b0) W1^T + b1) W2^T + b2   W0 [E, H], W1 [E, E], W2 [H, E]
//
// which is PEFT's PromptEncoder of type MLP. The rows are split over tp.
#pragma once

#include <array>

#include "model/context.h"
#include "model/parameters.h"

namespace gptrain {

/// The encoder of p-tuning, for any number of virtual tokens.
class PromptEncoder {
public:
    struct Layer {
        GroupTensors weight;
        GroupTensors bias;
    };
    PromptEncoder(Backend& backend, const std::array<Layer, 3>& layers)
        : backend_(backend), layers_(layers) {}

    // The results and temporary memory are taken from `arena`.

    /// table [p, H] of embeddings [p, H]
    Tensor encode(const Tensor& embeddings, Arena& arena) const;
    /// The gradient of the embeddings, in the compute dtype, from that of the table; adds those of
    /// the layers.
    Tensor backward(const Tensor& embeddings, const Tensor& dtable, Arena& arena) const;

private:
    /// The input and the output, before the activation function, of each layer.
    struct Values {
        Tensor x;
        Tensor y;
    };
    std::array<Values, 3> run(const Tensor& embeddings, Arena& arena) const;

    Backend& backend_;
    std::array<Layer, 3> layers_;
};

class VirtualTokens {
public:
    VirtualTokens(const ModelContext& context, const Parameters& parameters);

    /// True if the model has virtual tokens; the same on all ranks of tp.
    bool present() const { return context_.shape.prompt.has_value(); }
    /// x += the embeddings of this rank's virtual tokens.
    void add(const Tensor& ids, const Tensor& x) const;
    /// Adds the gradients, from that of x [T, H].
    void backward(const Tensor& ids, const Tensor& dx) const;

private:
    /// The encoder, if there is one.
    bool encodes() const { return context_.shape.prompt->encoder_hidden > 0; }
    PromptEncoder encoder() const { return {context_.backend, layers_}; }
    bool has_rows() const { return table_.outputs() > 0; }

    const ModelContext& context_;
    GroupTensors table_;  ///< this rank's rows, or what they are computed from
    std::array<PromptEncoder::Layer, 3> layers_;
    std::int64_t first_id_ = 0;  ///< of this rank's virtual tokens
};

}  // namespace gptrain
