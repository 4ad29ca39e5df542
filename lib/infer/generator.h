// Generates tokens one by one, on any mesh with one copy of the model.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "infer/inference.h"

namespace gptrain {

class Generator {
public:
    /// For one sequence of at most plan.seq_length tokens, passed in at most `prompt_tokens` at a
    /// time. The plan must have one rank of dp and cp, no sequence parallelism and microbatches of
    /// one sequence. Reports actions to `listener`. The references must outlive the generator.
    Generator(Backend& backend, const Mesh& mesh, const RunPlan& plan, std::int64_t prompt_tokens,
              ActionListener& listener, const std::optional<MemoryPlan>& memory = std::nullopt);

    /// Chooses a token from the logits [V] of all tokens.
    using Choose = std::function<std::int32_t(std::span<const float> logits)>;
    /// Appends tokens to the sequence and returns the token that follows. One rank chooses it and
    /// broadcasts it. All ranks call it with the same tokens.
    std::int32_t next_token(std::span<const std::int32_t> tokens, const Choose& choose);

    InferenceModel& model() { return model_; }

private:
    Batch upload(std::span<const std::int32_t> tokens) const;
    /// token_ = the chosen token, on the rank that broadcasts it. Called by the ranks of the last
    /// chunk.
    void choose_token(const Choose& choose);

    const RunPlan& plan_;
    ActionListener& listener_;
    InferenceModel model_;
    Schedule schedule_;                         ///< of one microbatch
    Batch batch_;                               ///< [1, prompt_tokens]
    std::vector<Tensor> buffers_;               ///< boundaries, [prompt_tokens, H]
    std::vector<std::vector<KvCache>> caches_;  ///< for each chunk
    std::int64_t length_ = 0;                   ///< tokens in the caches
    bool has_head_;
    Tensor logits_;      ///< compute dtype [V], padded; on the stage with the head
    Tensor logits_f32_;  ///< [V], not padded; on the stage with the head
    Tensor token_;       ///< i32 [1]
};

}  // namespace gptrain
