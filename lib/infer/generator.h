// Generates tokens one by one, for one or several sequences, on any mesh with one copy of the
// model.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "engine/logit_rows.h"
#include "engine/step_trace.h"
#include "infer/token_batch.h"

namespace gptrain {

class Generator {
public:
    /// For plan.micro_batch_size sequences of at most plan.seq_length tokens, virtual ones
    /// included, passed in at most `max_at_once` of each at a time. The virtual tokens pass
    /// through the model once, before the first other tokens; nothing else below counts them. The
    /// plan must have one rank of dp and cp and no sequence parallelism. Reports actions to
    /// `listener`. The references must outlive the generator.
    Generator(Backend& backend, const Mesh& mesh, const RunPlan& plan, std::int64_t max_at_once,
              ActionListener& listener, const std::optional<MemoryPlan>& memory = std::nullopt);

    /// Chooses a token from the logits [V] of all tokens. Called for one sequence after the other.
    using Choose = std::function<std::int32_t(std::span<const float> logits)>;
    /// Appends tokens [B, n] to the sequences and returns the token that follows each, [B]. One
    /// rank chooses and broadcasts them. All ranks call it with the same tokens.
    std::vector<std::int32_t> next_tokens(std::span<const std::int32_t> tokens,
                                          const Choose& choose);
    /// The same for a single sequence.
    std::int32_t next_token(std::span<const std::int32_t> tokens, const Choose& choose) {
        return next_tokens(tokens, choose).front();
    }
    /// Appends any number of tokens to a single sequence.
    void read(std::span<const std::int32_t> tokens);
    /// Continues after the first `length` tokens. Tokens that were never read have arbitrary keys
    /// and values, which is enough to measure memory.
    void move_to(std::int64_t length);
    /// Tokens of a sequence.
    std::int64_t length() const { return length_; }
    /// Passes the virtual tokens, unless that has been done.
    void begin();

    InferenceModel& model() { return model_; }
    /// Memory of the keys and values of all tokens.
    std::int64_t cache_bytes() const;

private:
    /// Tokens [B, n] at positions from `first` on.
    Batch upload(std::span<const std::int32_t> tokens, std::int64_t first) const;
    /// Appends tokens [B, n], at most max_at_once_ of each sequence; fills logits_ on the stage
    /// with the head.
    void pass(std::span<const std::int32_t> tokens, std::int64_t first);
    /// The same after the tokens so far.
    void append(std::span<const std::int32_t> tokens);
    /// tokens_ = the chosen tokens, on the rank that broadcasts them. Called by the ranks of the
    /// last chunk.
    void choose_tokens(const Choose& choose);

    const RunPlan& plan_;
    ActionListener& listener_;
    InferenceModel model_;
    TokenBatch batch_;   ///< of B max_at_once tokens
    Schedule schedule_;  ///< of one microbatch
    std::int64_t max_at_once_;
    std::vector<Tensor> buffers_;               ///< boundaries, [B max_at_once, H]
    std::vector<std::vector<KvCache>> caches_;  ///< for each chunk
    std::int64_t length_ = 0;                   ///< tokens of a sequence in the caches
    bool begun_ = false;                        ///< the virtual tokens have passed
    bool has_head_;
    LogitRows logits_;  ///< of B rows; on the stage with the head
    Tensor tokens_;     ///< i32 [B]
};

/// The memory that a generator takes on a rank, from the first tokens to the last.
struct GeneratorMemory {
    MemoryPlan memory;
    std::int64_t cache_bytes = 0;  ///< in it
};

/// Runs a generator over the meter.
GeneratorMemory measure_generator(const RunPlan& plan, const MeshPlace& place,
                                  const BackendMemory& needs, std::int64_t prompt_tokens);

/// The trace of a generator on a rank when `count` tokens of each sequence follow `before` others.
StepTrace trace_tokens(const RunPlan& plan, const MeshPlace& place, const BackendMemory& needs,
                       std::int64_t before, std::int64_t count);

}  // namespace gptrain
