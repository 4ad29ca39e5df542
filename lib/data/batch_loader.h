// Batches of one data rank for consecutive steps, prepared ahead of time by a thread.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "data/microbatch.h"
#include "data/sample_source.h"
#include "data/token_masking.h"
#include "spec/run_plan.h"

namespace gptrain {

/// How samples form microbatches.
struct BatchShape {
    std::int64_t seq_length = 0;
    std::int64_t micro_batch_size = 0;
    std::int64_t data_rank = 0;
    std::int64_t data_ranks = 1;
    /// Ranks with a microbatch less than others repeat their last one, without weight.
    bool equal_counts = false;
    std::int64_t vocab_size = 0;
    std::int64_t virtual_tokens = 0;     ///< whose ids are below 0
    std::optional<std::int64_t> eod_id;  ///< required by the next two
    bool eod_mask_loss = false;
    bool reset_at_eod = false;
    std::optional<std::int64_t>
        sliding_window;                        ///< keys that a token sees at most, itself included
    std::optional<TokenMasking> masking = {};  ///< empty: the next token is the target
};

/// The steps that a loader serves.
struct StepRange {
    std::int64_t first_step = 1;
    std::int64_t last_step = 0;         ///< inclusive; nothing beyond it is read
    std::int64_t consumed_samples = 0;  ///< before first_step
};

/// Makes one step's batch on the calling thread. For microbatch m, data rank r of R takes the B
/// samples from consumed + m (B R) + r B on (Megatron's order), as long as they are in the global
/// batch: this is one range of samples on every mesh. It must be a multiple of B, and with
/// `equal_counts` of at least B R. An id outside [-virtual_tokens, vocab_size) is an Error
/// (bad_input) that names file, sequence and token.
StepBatch make_step_batch(const SampleSource& source, const BatchShape& shape, std::int64_t step,
                          std::int64_t consumed_samples, std::int64_t global_batch_size);

/// Repeats the last microbatch, without weight, until there are so many.
void fill_up(StepBatch& batch, std::int64_t microbatches);

/// Returns the batches of a range of steps in order. A thread stays up to `depth` steps ahead, so
/// that training does not wait for the disk. Each evaluation makes a new loader over the validation
/// samples, from sample 0.
class BatchLoader {
public:
    BatchLoader(std::shared_ptr<const SampleSource> source, BatchSchedule schedule,
                BatchShape shape, StepRange range, std::int64_t depth = 2);
    ~BatchLoader();
    BatchLoader(const BatchLoader&) = delete;
    BatchLoader& operator=(const BatchLoader&) = delete;

    /// The next step's batch. If making it failed, throws that error. Reading past the last step is
    /// an Error (bug).
    StepBatch next();

private:
    void run(StepRange range);

    const std::shared_ptr<const SampleSource> source_;
    const BatchSchedule schedule_;
    const BatchShape shape_;
    const std::int64_t depth_;

    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<StepBatch> ready_;
    std::exception_ptr fault_;
    bool finished_ = false;
    bool stop_ = false;
    std::thread thread_;  // last member: the thread uses all of the above
};

}  // namespace gptrain
