// Texts of different lengths in batches for forward passes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "comm/mesh.h"
#include "data/microbatch.h"
#include "model/sequence.h"
#include "spec/run_plan.h"
#include "tasks/score_request.h"

namespace gptrain {

/// The number of tokens in the longest request's text, without its last one.
std::int64_t longest_input(std::span<const ScoreRequest> requests);

/// True if batches may be shorter than the plan's: a rank holds whole sequences, and no GEMM is in
/// FP8, which needs sizes that are multiples of 16.
bool takes_shorter_batches(const RunPlan& plan);

/// A scored token of a request.
struct ScoredToken {
    std::size_t request = 0;
    std::int64_t position = 0;  ///< of the token's input, behind the virtual tokens
    std::size_t row = 0;        ///< among the rows that the rank has of the microbatch
};

/// A batch of requests.
struct TextBatch {
    std::vector<Microbatch> microbatches;
    std::int64_t length = 0;  ///< of its sequences
    std::int64_t done = 0;    ///< requests in this batch and those before it
    /// The scored tokens that this rank has of each microbatch, in the order of rows.
    std::vector<std::vector<ScoredToken>> scored;
};

/// Calls `work` with one batch of requests after the other while it returns true. No request may be
/// longer than plan.seq_length + 1 with the virtual tokens that come before it. Data ranks share
/// them. The longest go first, in batches of plan.batch, padded to the longest of their batch. Each
/// is a separate sequence in which nothing restarts. Returns false if `work` did. Error
/// (bad_input): an id outside the vocabulary.
bool for_each_batch(std::span<const ScoreRequest> requests, const RunPlan& plan,
                    const MeshPlace& place, const std::function<bool(const TextBatch&)>& work);

}  // namespace gptrain
