// A trained model without its optimizer: losses of given tokens, and the next token.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "checkpoint/verify.h"
#include "train/engine.h"

namespace gptrain {

/// What an inference is to be able to do.
struct InferenceSizes {
    std::int64_t sequences = 1;      ///< B of a batch
    std::int64_t seq_length = 0;     ///< S of a batch, or the tokens of a prompt
    std::int64_t cached_tokens = 0;  ///< prompt and generated tokens; 0: no generation
    bool first_visible = false;      ///< batches carry it
};

class InferenceModel {
public:
    /// Takes all its memory; with a plan exactly that. The references must outlive the model.
    InferenceModel(Backend& backend, const Mesh& mesh, const RunPlan& plan,
                   const InferenceSizes& sizes,
                   const std::optional<MemoryPlan>& memory = std::nullopt);

    /// Fills the weights from a checkpoint, rounded to the compute dtype.
    void load(const ValidCheckpoint& checkpoint);

    /// Loss of a microbatch [sequences, seq_length].
    LossSum loss(const Microbatch& microbatch, double weight_sum);

    /// Adds tokens (at most seq_length of them) to those of the sequence seen so far; returns the
    /// logits [V] of the one that follows.
    std::vector<float> next_logits(std::span<const std::int32_t> tokens);

    MemoryPlan memory_used() const { return memory_.peaks(); }

private:
    Backend& backend_;
    Memory memory_;
    ModelContext context_;
    Parameters parameters_;
    GptChunk chunk_;
    StepRef state_;
    Batch batch_;
    Tensor staging_;  ///< fp32, the largest parameter; empty where the compute dtype is fp32
    std::vector<KvCache> caches_;
    Tensor logits_;      ///< compute dtype [1, V]
    Tensor logits_f32_;  ///< [1, V]
};

/// The spec of the run that wrote a checkpoint.
RunSpec spec_of(const ValidCheckpoint& checkpoint);

/// The plan of a run's model for a program that runs alone, whatever mesh trained it.
RunPlan inference_plan(RunSpec spec, bool cuda);

/// A model with exactly the memory it needs, loaded from a checkpoint.
std::unique_ptr<InferenceModel> load_model(const ValidCheckpoint& checkpoint, Backend& backend,
                                           const Mesh& mesh, const RunPlan& plan,
                                           const InferenceSizes& sizes);

}  // namespace gptrain
