// Forward passes of a model in memory that say how likely tokens are, instead of adding a loss.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "engine/logit_rows.h"
#include "engine/rank_model.h"

namespace gptrain {

/// Passes microbatches of plan.micro_batch_size sequences through the chunks of a rank, with the
/// current weights and without dropout. Sequences are at most plan.seq_length long, and exactly
/// that long if ranks share them.
class ForwardPasses {
public:
    /// Reserves memory for the head's results for a microbatch: scores, and for `logits` a row of
    /// the vocabulary for each sequence. `memory`: the stage's batches and boundary buffers. The
    /// references must outlive it.
    ForwardPasses(const ModelContext& context, const std::vector<GptChunk>& chunks,
                  const Parameters& parameters, const RunPlan& plan, const StepRef& step,
                  StageMemory memory, bool with_logits);

    /// Called on the stage with the head, for each microbatch, with the largest logit of each of
    /// this rank's rows, and its TargetScores::sums.
    using TakeScores = std::function<void(std::size_t microbatch, std::span<const float> maximum,
                                          std::span<const float> sums)>;
    /// Scores the targets of microbatches of sequences of `length` tokens.
    void score(std::span<const Microbatch> microbatches, std::int64_t length,
               ActionListener& listener, const TakeScores& take) const;

    /// Called on rank 0 of tp of the stage with the head, for each chosen row of a microbatch, with
    /// the logits [V] of the token that follows. `index`: among the microbatch's chosen rows.
    using TakeLogits = std::function<void(std::size_t microbatch, std::size_t index,
                                          std::span<const float> logits)>;
    /// Rows of a rank of cp in each microbatch, ascending, at most as many as it has sequences.
    using ChosenRows = std::vector<std::vector<std::int64_t>>;
    /// Computes the logits of chosen rows; only if constructed for logits.
    void logits(std::span<const Microbatch> microbatches, const ChosenRows& rows,
                std::int64_t length, ActionListener& listener, const TakeLogits& take) const;

    bool with_logits() const { return with_logits_; }
    const RunPlan& plan() const { return plan_; }
    const MeshPlace& place() const { return context_.mesh.place(); }

private:
    Stage stage_for(std::int64_t length) const;
    void run(std::span<const Microbatch> microbatches, const Stage& stage, ActionListener& listener,
             const Executor::ForwardWork& work) const;

    const ModelContext& context_;
    const std::vector<GptChunk>& chunks_;
    const Parameters& parameters_;
    const RunPlan& plan_;
    StepRef step_;
    StageMemory memory_;
    TargetScores scores_;
    bool with_logits_;
    LogitRows logits_;  ///< on the stage with the head
};

/// Runs the passes over this many microbatches of no data, which takes as much memory as any.
void run_for_memory(const ForwardPasses& passes, std::int64_t microbatches);

}  // namespace gptrain
