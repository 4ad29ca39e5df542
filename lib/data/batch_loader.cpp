#include "data/batch_loader.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>

#include "base/at.h"
#include "base/checked.h"
#include "base/error.h"

namespace gptrain {
namespace {

void check_ids(const SampleSource& source, std::int64_t index, std::span<const std::int32_t> tokens,
               const BatchShape& shape) {
    const auto wrong = std::find_if(tokens.begin(), tokens.end(), [&](std::int32_t id) {
        return id < -shape.virtual_tokens || id >= shape.vocab_size;
    });
    if (wrong == tokens.end()) return;
    fail(ExitCode::bad_input, source.place_of(index, wrong - tokens.begin()), ": token id ", *wrong,
         " is outside the vocabulary (", shape.vocab_size,
         "); the data was made with another tokenizer, or model.vocab_size is wrong");
}

/// One sample. The first `real` tokens are not padding.
struct Sample {
    std::vector<std::int32_t> tokens;
    std::vector<float> weights;
    std::int64_t real = 0;

    explicit Sample(std::size_t size) : tokens(size), weights(size) {}
};

/// Appends the sequence of sample `index` to a microbatch.
void append_sequence(Microbatch& batch, const Sample& sample, const BatchShape& shape,
                     std::int64_t index) {
    const auto length = static_cast<std::size_t>(shape.seq_length);
    const std::int32_t ahead = shape.masking ? 0 : 1;  // of the token whose target it is
    const std::span<const std::int32_t> tokens = sample.tokens;
    const auto inputs = tokens.first(length);
    const auto targets = tokens.subspan(static_cast<std::size_t>(ahead), length);
    batch.ids.insert(batch.ids.end(), inputs.begin(), inputs.end());
    batch.targets.insert(batch.targets.end(), targets.begin(), targets.end());
    std::vector<std::uint8_t> counted;
    std::int32_t document_begin = 0;
    for (std::int32_t i = 0; i < shape.seq_length; ++i) {
        const bool ends_document = shape.eod_id && at(inputs, i) == *shape.eod_id;
        const bool learned = at(sample.weights, i + ahead) > 0;
        const bool counts =
            i + ahead < sample.real && learned && !(ends_document && shape.eod_mask_loss);
        counted.push_back(counts ? 1 : 0);
        batch.positions.push_back(i - document_begin);
        if (shape.reset_at_eod) batch.first_visible.push_back(document_begin);
        if (shape.sliding_window) {
            const std::int64_t first =
                std::max<std::int64_t>(document_begin, i + 1 - *shape.sliding_window);
            batch.first_in_window.push_back(static_cast<std::int32_t>(first));
        }
        if (ends_document && shape.reset_at_eod) document_begin = i + 1;
    }
    if (shape.masking)
        mask_tokens(*shape.masking, index, std::span(batch.ids).last(length), counted);
    for (std::int32_t i = 0; i < shape.seq_length; ++i)
        batch.weights.push_back(at(counted, i) != 0 ? at(sample.weights, i + ahead) : 0.0f);
}

Microbatch make_microbatch(const SampleSource& source, const BatchShape& shape,
                           std::int64_t first_sample, std::int64_t first_sequence) {
    Microbatch batch;
    batch.first_sequence = first_sequence;
    const Shape tokens = {shape.micro_batch_size, shape.seq_length};
    const BatchMasks masks = {.documents = shape.reset_at_eod,
                              .window = shape.sliding_window.has_value(),
                              .sources = true};
    visit_fields(
        [&](const TokenField& field, auto& values) {
            const auto elements = static_cast<std::size_t>(field.shape_in(tokens).elements());
            if (field.is_in(masks)) values.reserve(elements);
        },
        batch);
    Sample sample(static_cast<std::size_t>(shape.seq_length + 1));
    for (std::int64_t b = 0; b < shape.micro_batch_size; ++b) {
        const std::int64_t index = first_sample + first_sequence + b;
        sample.real = source.sample(index, sample.tokens);
        source.weights(index, sample.weights);
        check_ids(source, index,
                  std::span(sample.tokens).first(static_cast<std::size_t>(sample.real)), shape);
        append_sequence(batch, sample, shape, index);
        batch.sources.push_back(static_cast<std::int32_t>(source.source_of(index)));
    }
    return batch;
}

}  // namespace

StepBatch make_step_batch(const SampleSource& source, const BatchShape& shape, std::int64_t step,
                          std::int64_t consumed_samples, std::int64_t global_batch_size) {
    StepBatch batch{step, consumed_samples, global_batch_size, {}, 0};
    const std::int64_t microbatches = div_exact(global_batch_size, shape.micro_batch_size);
    for (std::int64_t m = shape.data_rank; m < microbatches; m += shape.data_ranks) {
        const std::int64_t first = m * shape.micro_batch_size;
        batch.microbatches.push_back(make_microbatch(source, shape, consumed_samples, first));
        const std::vector<float>& weights = batch.microbatches.back().weights;
        batch.weight_sum = std::accumulate(weights.begin(), weights.end(), batch.weight_sum);
    }
    if (shape.equal_counts) fill_up(batch, div_ceil(microbatches, shape.data_ranks));
    return batch;
}

void fill_up(StepBatch& batch, std::int64_t microbatches) {
    while (std::ssize(batch.microbatches) < microbatches) {
        Microbatch again = batch.microbatches.back();
        std::ranges::fill(again.weights, 0.0f);
        batch.microbatches.push_back(std::move(again));
    }
}

BatchLoader::BatchLoader(std::shared_ptr<const SampleSource> source, BatchSchedule schedule,
                         BatchShape shape, StepRange range, std::int64_t depth)
    : source_(std::move(source)), schedule_(schedule), shape_(shape), depth_(depth) {
    GPTRAIN_CHECK(source_ && depth_ > 0);
    GPTRAIN_CHECK(shape_.eod_id || !(shape_.eod_mask_loss || shape_.reset_at_eod));
    thread_ = std::thread([this, range] { run(range); });
}

BatchLoader::~BatchLoader() {
    {
        const std::lock_guard lock(mutex_);
        stop_ = true;
    }
    changed_.notify_all();
    thread_.join();
}

void BatchLoader::run(StepRange range) {
    std::exception_ptr fault;
    try {
        std::int64_t consumed = range.consumed_samples;
        for (std::int64_t step = range.first_step; step <= range.last_step; ++step) {
            StepBatch batch =
                make_step_batch(*source_, shape_, step, consumed, schedule_.size_at(consumed));
            consumed += batch.global_batch_size;
            std::unique_lock lock(mutex_);
            changed_.wait(
                lock, [&] { return stop_ || static_cast<std::int64_t>(ready_.size()) < depth_; });
            if (stop_) return;
            ready_.push_back(std::move(batch));
            changed_.notify_all();
        }
    } catch (...) {
        fault = std::current_exception();
    }
    const std::lock_guard lock(mutex_);
    fault_ = fault;
    finished_ = true;
    changed_.notify_all();
}

StepBatch BatchLoader::next() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !ready_.empty() || finished_; });
    if (ready_.empty()) {
        if (fault_) std::rethrow_exception(fault_);
        fail(ExitCode::bug, "a batch was asked for beyond the loader's last step");
    }
    StepBatch batch = std::move(ready_.front());
    ready_.pop_front();
    changed_.notify_all();
    return batch;
}

}  // namespace gptrain
