// Scores texts with a model in memory: how likely their tokens are. Runs and evaluations share it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "comm/mpi_session.h"
#include "engine/rank_model.h"
#include "tasks/score_request.h"

namespace gptrain {

/// Scores the targets of microbatches with the chunks of a rank.
class TargetScorer {
public:
    /// Reserves memory for the scores of a microbatch. `memory`: the stage's batches and boundary
    /// buffers. The references must outlive it.
    TargetScorer(const ModelContext& context, const std::vector<GptChunk>& chunks,
                 const Parameters& parameters, const RunPlan& plan, const StepRef& step,
                 StageMemory memory);

    /// Called on the stage with the head, for each microbatch, with the largest logit of each of
    /// this rank's rows, and what TargetScores::sums has of it.
    using Take = std::function<void(std::size_t microbatch, std::span<const float> maximum,
                                    std::span<const float> sums)>;
    /// Scores microbatches of plan.micro_batch_size sequences of `length` tokens. That is at most
    /// plan.seq_length, and equal to it if ranks share sequences.
    void score(std::span<const Microbatch> microbatches, std::int64_t length,
               ActionListener& listener, const Take& take) const;

    const RunPlan& plan() const { return plan_; }
    const MeshPlace& place() const { return context_.mesh.place(); }

private:
    Stage stage_for(std::int64_t length) const;

    const ModelContext& context_;
    const std::vector<GptChunk>& chunks_;
    const Parameters& parameters_;
    const RunPlan& plan_;
    StepRef step_;
    StageMemory memory_;
    TargetScores scores_;
};

/// The number of tokens that the longest request's text has before its last one.
std::int64_t longest_input(std::span<const ScoreRequest> requests);

/// True if batches may be shorter than the plan's: a rank holds whole sequences, and no GEMM is in
/// FP8, which needs sizes that are multiples of 16.
bool takes_shorter_batches(const RunPlan& plan);

/// The scores of each request's scored tokens, in order, on rank 0; empty on the others. All ranks
/// call it with the same requests, none of which is longer than plan.seq_length + 1 with the
/// virtual tokens that come before it. Data ranks share them. The longest go first, in batches of
/// plan.batch, padded to the longest of their batch. After each batch all ranks call `go_on` with
/// the requests done; if it returns false, the same on all, the result is empty everywhere. Error
/// (bad_input): an id outside the vocabulary. A rank may score up to 2^26 tokens.
std::vector<TokenScores> score_requests(const TargetScorer& scorer, const MpiSession& ranks,
                                        std::span<const ScoreRequest> requests,
                                        ActionListener& listener,
                                        const std::function<bool(std::int64_t)>& go_on);

}  // namespace gptrain
