// Generates tokens one by one, on any mesh with one copy of the model.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "infer/inference.h"

namespace gptrain {

class Generator {
public:
    /// For one sequence of at most plan.seq_length tokens, of which at most `most_at_once` go
    /// through the model together. The plan must have one rank of dp and cp, no sequence
    /// parallelism and microbatches of one sequence. Reports actions to `listener`. The references
    /// must outlive the generator.
    Generator(Backend& backend, const Mesh& mesh, const RunPlan& plan, std::int64_t most_at_once,
              ActionListener& listener, const std::optional<MemoryPlan>& memory = std::nullopt);

    /// Chooses a token from the logits [V] of all tokens.
    using Choose = std::function<std::int32_t(std::span<const float> logits)>;
    /// Appends tokens to the sequence. All ranks call it with the same tokens.
    void read(std::span<const std::int32_t> tokens);
    /// The same, and returns the token that follows. One rank chooses it and broadcasts it.
    std::int32_t next_token(std::span<const std::int32_t> tokens, const Choose& choose);
    /// Continues after the first `length` tokens, at most plan.seq_length. Those that were never
    /// read have arbitrary keys and values, which is enough to measure memory.
    void move_to(std::int64_t length);
    /// Tokens of the sequence.
    std::int64_t length() const { return length_; }

    InferenceModel& model() { return model_; }

private:
    Batch upload(std::span<const std::int32_t> tokens) const;
    /// Appends at most most_at_once_ tokens; fills logits_ on the stage with the head.
    void append(std::span<const std::int32_t> tokens);
    /// token_ = the chosen token, on the rank that broadcasts it. Called by the ranks of the last
    /// chunk.
    void choose_token(const Choose& choose);

    const RunPlan& plan_;
    ActionListener& listener_;
    InferenceModel model_;
    Schedule schedule_;  ///< of one microbatch
    std::int64_t most_at_once_;
    Batch batch_;                               ///< [1, most_at_once]
    std::vector<Tensor> buffers_;               ///< boundaries, [most_at_once, H]
    std::vector<std::vector<KvCache>> caches_;  ///< for each chunk
    std::int64_t length_ = 0;                   ///< tokens in the caches
    bool has_head_;
    Tensor logits_;      ///< compute dtype [V], padded; on the stage with the head
    Tensor logits_f32_;  ///< [V], not padded; on the stage with the head
    Tensor token_;       ///< i32 [1]
};

}  // namespace gptrain
