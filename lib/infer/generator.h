// The token after those that a model has seen, on any mesh that holds one copy of the model.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "infer/inference.h"

namespace gptrain {

class Generator {
public:
    /// For one sequence of at most plan.seq_length tokens, at most `prompt_tokens` of them at a
    /// time; the plan has one rank of dp and cp, no sequence parallelism and microbatches of one
    /// sequence. `listener` is told of the actions. The references outlive the generator.
    Generator(Backend& backend, const Mesh& mesh, const RunPlan& plan, std::int64_t prompt_tokens,
              ActionListener& listener, const std::optional<MemoryPlan>& memory = std::nullopt);

    /// A token, chosen from the logits [V] of all.
    using Choose = std::function<std::int32_t(std::span<const float> logits)>;
    /// Adds tokens to those of the sequence seen so far; returns the one that follows, which one
    /// rank chooses and tells all others. All ranks call it with the same tokens.
    std::int32_t next_token(std::span<const std::int32_t> tokens, const Choose& choose);

    InferenceModel& model() { return model_; }

private:
    Batch upload(std::span<const std::int32_t> tokens) const;
    /// token_ = the choice, on the rank that tells it; the ranks of the last chunk call it.
    void choose_token(const Choose& choose);

    const RunPlan& plan_;
    ActionListener& listener_;
    InferenceModel model_;
    Schedule schedule_;                         ///< of one microbatch
    Batch batch_;                               ///< [1, prompt_tokens]
    std::vector<Tensor> buffers_;               ///< boundaries, [prompt_tokens, H]
    std::vector<std::vector<KvCache>> caches_;  ///< of each chunk
    std::int64_t length_ = 0;                   ///< tokens in them
    bool has_head_;
    Tensor logits_;      ///< compute dtype [V], with padding, where the head is
    Tensor logits_f32_;  ///< [V] without, there
    Tensor token_;       ///< i32 [1]
};

}  // namespace gptrain
