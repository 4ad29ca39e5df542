#include "calibrate/made_up_batch.h"

#include <algorithm>
#include <limits>
#include <string>

#include "data/batch_loader.h"
#include "engine/rank_model.h"

namespace gptrain {
namespace {

/// Endless tokens without a pattern.
class MadeUpTokens final : public SampleSource {
public:
    explicit MadeUpTokens(std::int64_t vocab) : vocab_(vocab) {}

    std::int64_t size() const override { return std::numeric_limits<std::int64_t>::max(); }
    std::int64_t sample(std::int64_t index, std::span<std::int32_t> tokens) const override {
        for (std::int64_t next = index * std::ssize(tokens); std::int32_t & id : tokens)
            id = static_cast<std::int32_t>(next++ * 7919 % vocab_);
        return std::ssize(tokens);
    }
    void weights(std::int64_t, std::span<float> weights) const override {
        std::fill(weights.begin(), weights.end(), 1.0f);
    }
    std::string place_of(std::int64_t, std::int64_t) const override { return "made-up tokens"; }

private:
    std::int64_t vocab_;
};

}  // namespace

StepBatch made_up_batch(const RunPlan& plan, std::int64_t data_rank) {
    BatchShape shape = batch_shape(plan, {});
    shape.data_rank = data_rank;
    shape.eod_id.reset();
    shape.eod_mask_loss = false;
    shape.masking.reset();
    StepBatch batch =
        make_step_batch(MadeUpTokens(plan.model.vocab), shape, 0, 0, plan.batch.global_batch_size);
    batch.weight_sum = static_cast<double>(batch.global_batch_size * plan.seq_length);
    return batch;
}

}  // namespace gptrain
