#include "engine/text_batches.h"

#include <algorithm>
#include <numeric>
#include <string>

#include "data/batch_loader.h"
#include "data/virtual_tokens.h"
#include "engine/rank_model.h"

namespace gptrain {
namespace {

/// Requests as samples behind virtual tokens, the longest first, padded to a length that may differ
/// from batch to batch.
class RequestSource final : public SampleSource {
public:
    RequestSource(std::span<const ScoreRequest> requests, std::int64_t virtual_tokens)
        : requests_(requests), virtual_tokens_(virtual_tokens), order_(requests.size()) {
        std::iota(order_.begin(), order_.end(), std::size_t{0});
        std::stable_sort(order_.begin(), order_.end(), [&](std::size_t a, std::size_t b) {
            return requests[a].ids.size() > requests[b].ids.size();
        });
    }

    std::int64_t size() const override { return std::ssize(order_); }

    std::int64_t sample(std::int64_t index, std::span<std::int32_t> tokens) const override {
        std::fill(tokens.begin(), tokens.end(), 0);
        if (index >= size()) return 0;
        const auto before = static_cast<std::size_t>(virtual_tokens_);
        fill_virtual_ids(tokens.first(before), 0, virtual_tokens_);
        std::copy(at(index).ids.begin(), at(index).ids.end(), tokens.subspan(before).begin());
        return length(index) + 1;
    }

    void weights(std::int64_t index, std::span<float> weights) const override {
        std::fill(weights.begin(), weights.end(), 0.0f);
        if (index >= size()) return;
        const auto end = weights.begin() + length(index) + 1;
        std::fill(end - at(index).scored, end, 1.0f);
    }

    std::string place_of(std::int64_t index, std::int64_t offset) const override {
        return text("text ", request_of(index), " of the tasks, token ", offset - virtual_tokens_);
    }

    /// The index of the request that is sample `index`.
    std::size_t request_of(std::int64_t index) const {
        return order_[static_cast<std::size_t>(index)];
    }
    /// The number of inputs of sample `index`.
    std::int64_t length(std::int64_t index) const {
        return virtual_tokens_ + std::ssize(at(index).ids) - 1;
    }

private:
    const ScoreRequest& at(std::int64_t index) const { return requests_[request_of(index)]; }

    std::span<const ScoreRequest> requests_;
    std::int64_t virtual_tokens_;
    std::vector<std::size_t> order_;
};

/// The scored tokens of the microbatch whose first sequence is sample `first`, on a rank with these
/// slices.
std::vector<ScoredToken> scored_tokens(const Microbatch& microbatch, const RequestSource& source,
                                       std::int64_t first, std::span<const SequenceSlice> slices,
                                       const RunPlan& plan, std::int64_t length) {
    std::vector<ScoredToken> scored;
    std::size_t row = 0;
    for (std::int64_t b = 0; b < plan.micro_batch_size; ++b) {
        for (const SequenceSlice& slice : slices) {
            for (std::int64_t i = slice.begin; i < slice.begin + slice.length; ++i, ++row) {
                if (microbatch.weights[static_cast<std::size_t>(b * length + i)] <= 0) continue;
                scored.push_back({.request = source.request_of(first + b),
                                  .position = i - plan.model.virtual_tokens(),
                                  .row = row});
            }
        }
    }
    return scored;
}

/// The batch that begins with sample `first`, with only as many microbatches as it needs.
TextBatch batch_at(const RequestSource& source, std::int64_t first, const RunPlan& plan,
                   const MeshPlace& place) {
    TextBatch batch;
    batch.length = takes_shorter_batches(plan) ? source.length(first) : plan.seq_length;
    BatchShape shape = batch_shape(plan, place);
    shape.seq_length = batch.length;
    shape.eod_id.reset();
    shape.eod_mask_loss = false;
    const std::int64_t unit = shape.micro_batch_size * shape.data_ranks;
    const std::int64_t sequences =
        std::min(plan.batch.global_batch_size, round_up(source.size() - first, unit));
    batch.microbatches = make_step_batch(source, shape, 1, first, sequences).microbatches;
    batch.done = std::min(first + plan.batch.global_batch_size, source.size());
    const std::vector<SequenceSlice> slices =
        context_slices(batch.length, plan.mesh.context, place.cp, plan.context_method);
    for (const Microbatch& microbatch : batch.microbatches)
        batch.scored.push_back(scored_tokens(microbatch, source, first + microbatch.first_sequence,
                                             slices, plan, batch.length));
    return batch;
}

}  // namespace

std::int64_t longest_input(std::span<const ScoreRequest> requests) {
    std::int64_t longest = 0;
    for (const ScoreRequest& request : requests)
        longest = std::max(longest, std::ssize(request.ids) - 1);
    return longest;
}

bool takes_shorter_batches(const RunPlan& plan) {
    return plan.mesh.context == 1 && !plan.sequence_parallel && !plan.fp8;
}

bool for_each_batch(std::span<const ScoreRequest> requests, const RunPlan& plan,
                    const MeshPlace& place, const std::function<bool(const TextBatch&)>& work) {
    const RequestSource source(requests, plan.model.virtual_tokens());
    for (std::int64_t first = 0; first < source.size(); first += plan.batch.global_batch_size)
        if (!work(batch_at(source, first, plan, place))) return false;
    return true;
}

}  // namespace gptrain
