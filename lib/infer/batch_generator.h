// Continues several texts of different lengths at a time (continuous batching, Yu et al. 2022,
// OSDI, "Orca"): in each step some of them get one token and others a part of their prompt. All
// linear layers see the tokens of a step as one batch; attention runs for each text by itself.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "engine/logit_rows.h"
#include "infer/token_batch.h"

namespace gptrain {

struct BatchLimits {
    std::int64_t texts = 1;      ///< at a time; each has a place in the caches
    std::int64_t positions = 1;  ///< tokens of a text, without virtual ones
    std::int64_t tokens = 1;     ///< of a step, all texts together
    std::int64_t logits = 1;     ///< rows of logits of a step, all texts together
};

/// The tokens that a step appends to a text.
struct TextStep {
    std::int64_t place = 0;   ///< of the text in the caches, below BatchLimits::texts
    std::int64_t before = 0;  ///< tokens of the text that earlier steps have appended
    std::vector<std::int32_t> tokens;
    std::int64_t logits = 0;  ///< how many of the last tokens need logits
    /// The place from which the caches of the `before` tokens are first copied. No earlier step of
    /// the same run may copy into it; any step may overwrite them there afterwards.
    std::optional<std::int64_t> copied_from = {};
};

class BatchGenerator {
public:
    /// The plan must have one rank of dp and cp and no sequence parallelism. Reports actions to
    /// `listener`. With a memory plan it allocates exactly that. The references must outlive it.
    BatchGenerator(Backend& backend, const Mesh& mesh, const RunPlan& plan,
                   const BatchLimits& limits, ActionListener& listener,
                   const std::optional<MemoryPlan>& memory = std::nullopt);
    BatchGenerator(const BatchGenerator&) = delete;
    BatchGenerator& operator=(const BatchGenerator&) = delete;

    /// Receives the logits [V] after a token, on rank 0 of the ranks that hold the model: of one
    /// step after the other, and of its tokens in their order.
    using TakeLogits = std::function<void(std::size_t step, std::span<const float> logits)>;
    /// All ranks call it with the same steps, at most one for each place, within the limits. The
    /// virtual tokens of all places pass through the model before the first step, and stay in the
    /// caches.
    void run(std::span<const TextStep> steps, const TakeLogits& take);

    const BatchLimits& limits() const { return limits_; }
    InferenceModel& model() { return model_; }

private:
    struct Rows {
        std::vector<TextRows> texts;
        std::vector<std::int64_t> logits;  ///< rows of the batch, ascending
    };
    /// Positions of a place in the caches.
    std::int64_t place_length() const { return plan_.model.virtual_tokens() + limits_.positions; }
    /// `before` of the steps counts virtual tokens here and below.
    Rows rows_of(std::span<const TextStep> steps) const;
    Batch upload(std::span<const TextStep> steps, const Rows& rows) const;
    void pass(std::span<const TextStep> steps, const TakeLogits& take);
    /// Copies the first positions of a place in the caches to another.
    void copy_place(std::int64_t from, std::int64_t to, std::int64_t count);
    /// Passes the virtual tokens of all places.
    void begin();
    /// Passes rows of fp32 logits to `take`, on rank 0.
    void deliver(std::span<const TextStep> steps, std::int64_t rows, const TakeLogits& take);

    RunPlan plan_;
    BatchLimits limits_;
    ActionListener& listener_;
    InferenceModel model_;
    TokenBatch batch_;                          ///< of limits_.tokens tokens
    Schedule schedule_;                         ///< of one microbatch
    std::vector<Tensor> buffers_;               ///< boundaries, [tokens, H]
    std::vector<std::vector<KvCache>> caches_;  ///< for each chunk, [1, texts x place_length, G, D]
    LogitRows logits_;                          ///< on the stage with the head
    Tensor received_;                           ///< fp32 logits, on rank 0 if it is not the head's
    std::vector<float> host_logits_;
    bool begun_ = false;
};

/// The memory that a BatchGenerator takes on a rank.
MemoryPlan measure_batch_generator(const RunPlan& plan, const MeshPlace& place,
                                   const BackendMemory& needs, const BatchLimits& limits);

}  // namespace gptrain
