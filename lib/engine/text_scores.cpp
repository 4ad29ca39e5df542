#include "engine/text_scores.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <string>
#include <utility>

#include "data/sample_source.h"
#include "data/virtual_tokens.h"

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

    void learned(std::int64_t index, std::span<std::uint8_t> learned) const override {
        std::fill(learned.begin(), learned.end(), std::uint8_t{0});
        if (index >= size()) return;
        const auto end = learned.begin() + length(index) + 1;
        std::fill(end - at(index).scored, end, std::uint8_t{1});
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

/// The first elements of a tensor, in a smaller shape.
Tensor shortened(const Tensor& whole, const Shape& shape) {
    if (whole.empty()) return whole;
    return whole.view({whole.elements()}).slice(0, 0, shape.elements()).view(shape);
}

/// A token's score on its way to rank 0.
struct ScoreEntry {
    std::int64_t request = 0;
    std::int64_t position = 0;  ///< of the token's input, behind the virtual tokens
    TokenScore score;
};

/// Calls `take` with the sequence, the position in it and the row of each scored token among the
/// rows that a rank with these slices has of a microbatch.
void for_each_scored(const Microbatch& microbatch, std::span<const SequenceSlice> slices,
                     std::int64_t length,
                     const std::function<void(std::int64_t, std::int64_t, std::size_t)>& take) {
    const std::int64_t sequences = std::ssize(microbatch.ids) / length;
    std::size_t row = 0;
    for (std::int64_t b = 0; b < sequences; ++b) {
        for (const SequenceSlice& slice : slices) {
            for (std::int64_t i = slice.begin; i < slice.begin + slice.length; ++i, ++row) {
                if (microbatch.weights[static_cast<std::size_t>(b * length + i)] > 0)
                    take(b, i, row);
            }
        }
    }
}

/// log p of a row's target, from its largest logit and its sums.
TokenScore score_of(float maximum, float sum, float target) {
    return {double{target} - double{maximum} - std::log(static_cast<double>(sum)),
            target >= maximum};
}

/// Puts the entries of all ranks in their places, on rank 0.
std::vector<TokenScores> collect(const MpiSession& ranks, std::span<const ScoreRequest> requests,
                                 std::span<const ScoreEntry> mine) {
    const auto bytes = std::as_bytes(mine);
    const std::vector<std::string> all =
        ranks.gather({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    std::vector<TokenScores> scores;
    if (ranks.rank() != 0) return scores;
    for (const ScoreRequest& request : requests)
        scores.emplace_back(static_cast<std::size_t>(request.scored));
    for (const std::string& part : all) {
        for (std::size_t at = 0; at < part.size(); at += sizeof(ScoreEntry)) {
            ScoreEntry entry;
            std::memcpy(&entry, part.data() + at, sizeof entry);
            const auto index = static_cast<std::size_t>(entry.request);
            const ScoreRequest& request = requests[index];
            const std::int64_t first = std::ssize(request.ids) - 1 - request.scored;
            scores[index].at(static_cast<std::size_t>(entry.position - first)) = entry.score;
        }
    }
    return scores;
}

/// The batch that begins with sample `first`, of no more microbatches than it needs. Each text is a
/// sequence of its own, in which nothing restarts.
StepBatch batch_at(const RequestSource& source, const TargetScorer& scorer, std::int64_t first,
                   std::int64_t length) {
    const RunPlan& plan = scorer.plan();
    BatchShape shape = batch_shape(plan, scorer.place());
    shape.seq_length = length;
    shape.eod_id.reset();
    shape.eod_mask_loss = false;
    const std::int64_t unit = shape.micro_batch_size * shape.data_ranks;
    const std::int64_t sequences =
        std::min(plan.batch.global_batch_size, round_up(source.size() - first, unit));
    return make_step_batch(source, shape, 1, first, sequences);
}

}  // namespace

TargetScorer::TargetScorer(const ModelContext& context, const std::vector<GptChunk>& chunks,
                           const Parameters& parameters, const RunPlan& plan, const StepRef& step,
                           StageMemory memory)
    : context_(context),
      chunks_(chunks),
      parameters_(parameters),
      plan_(plan),
      step_(step),
      memory_(std::move(memory)) {
    Arena& arena = context.memory[MemoryUse::batch];
    const std::int64_t rows = plan.micro_batch_size * plan.local_length();
    scores_ = {.maximum = arena.allocate(DType::f32, {rows}),
               .sums = arena.allocate(DType::f32, {rows, 2})};
}

void TargetScorer::score(std::span<const Microbatch> microbatches, std::int64_t length,
                         ActionListener& listener, const Take& take) const {
    const Stage stage = stage_for(length);
    const std::int64_t rows = plan_.micro_batch_size * length_of(stage.slices);
    const TargetScores scores = {.maximum = scores_.maximum.slice(0, 0, rows),
                                 .sums = scores_.sums.slice(0, 0, rows)};
    std::vector<float> maximum(static_cast<std::size_t>(rows));
    std::vector<float> sums(maximum.size() * 2);
    Executor executor(stage, step_);
    executor.listen(listener);
    const Schedule schedule =
        make_forward_schedule(pipeline_of(plan_, std::ssize(microbatches)), place().pp);
    executor.score(schedule, microbatches, scores, [&](std::size_t microbatch) {
        context_.backend.download(std::as_writable_bytes(std::span(maximum)), scores.maximum);
        context_.backend.download(std::as_writable_bytes(std::span(sums)), scores.sums);
        take(microbatch, maximum, sums);
    });
}

Stage TargetScorer::stage_for(std::int64_t length) const {
    RunPlan plan = plan_;
    plan.seq_length = length;
    Stage stage = make_stage(context_, chunks_, parameters_, plan, memory_);
    if (length == plan_.seq_length) return stage;
    const std::int64_t sequences = plan_.micro_batch_size;
    for (Batch& batch : stage.memory.batches) {
        for (Tensor* tensor :
             {&batch.ids, &batch.targets, &batch.weights, &batch.positions, &batch.stream_positions,
              &batch.first_visible, &batch.first_in_window})
            *tensor = shortened(*tensor, {sequences, length});
    }
    for (Tensor& buffer : stage.memory.buffers)
        buffer = buffer.slice(0, 0, sequences * length);
    return stage;
}

std::int64_t longest_input(std::span<const ScoreRequest> requests) {
    std::int64_t longest = 0;
    for (const ScoreRequest& request : requests)
        longest = std::max(longest, std::ssize(request.ids) - 1);
    return longest;
}

bool takes_shorter_batches(const RunPlan& plan) {
    return plan.mesh.context == 1 && !plan.sequence_parallel && !plan.fp8;
}

std::vector<TokenScores> score_requests(const TargetScorer& scorer, const MpiSession& ranks,
                                        std::span<const ScoreRequest> requests,
                                        ActionListener& listener,
                                        const std::function<bool(std::int64_t)>& go_on) {
    const RunPlan& plan = scorer.plan();
    const std::int64_t before = plan.model.virtual_tokens();
    const RequestSource source(requests, before);
    const MeshPlace& place = scorer.place();
    const std::int64_t per_batch = plan.batch.global_batch_size;
    std::vector<ScoreEntry> entries;
    for (std::int64_t first = 0; first < source.size(); first += per_batch) {
        const std::int64_t length =
            takes_shorter_batches(plan) ? source.length(first) : plan.seq_length;
        const StepBatch batch = batch_at(source, scorer, first, length);
        const std::vector<SequenceSlice> slices =
            context_slices(length, plan.mesh.context, place.cp, plan.context_method);
        const auto take = [&](std::size_t microbatch, std::span<const float> maximum,
                              std::span<const float> sums) {
            if (place.tp != 0) return;
            const Microbatch& part = batch.microbatches[microbatch];
            for_each_scored(part, slices, length, [&](auto b, auto i, auto row) {
                const auto request = source.request_of(first + part.first_sequence + b);
                entries.push_back({static_cast<std::int64_t>(request), i - before,
                                   score_of(maximum[row], sums[2 * row], sums[2 * row + 1])});
            });
        };
        scorer.score(batch.microbatches, length, listener, take);
        if (!go_on(std::min(first + per_batch, source.size()))) return {};
    }
    return collect(ranks, requests, entries);
}

}  // namespace gptrain
