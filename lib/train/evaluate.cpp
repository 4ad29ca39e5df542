#include "train/evaluate.h"

#include <algorithm>
#include <cmath>

#include "base/file.h"
#include "data/sequential_dataset.h"
#include "text/tokenizer.h"

namespace gptrain {
namespace {

constexpr std::int64_t largest_text = std::int64_t{16} << 30;

std::shared_ptr<const SequentialDataset> open_data(const std::filesystem::path& data,
                                                   const RunSpec& spec, const RunPlan& plan) {
    if (std::filesystem::exists(data.string() + ".idx")) {
        return std::make_shared<SequentialDataset>(std::make_shared<IndexedDataset>(data),
                                                   plan.seq_length);
    }
    if (!spec.data.tokenizer) {
        fail(ExitCode::usage, data.string(),
             ": no token data set of that prefix, and the run has no tokenizer to read text with");
    }
    const Tokenizer tokenizer(*spec.data.tokenizer);
    std::vector<std::int32_t> ids;
    tokenizer.encode(read_file(data, largest_text), ids);
    return std::make_shared<SequentialDataset>(std::move(ids), data.string(), plan.seq_length);
}

}  // namespace

EvaluationResult evaluate(const ValidCheckpoint& checkpoint, const std::filesystem::path& data,
                          Backend& backend, const Mesh& mesh, bool cuda,
                          const std::function<void(std::int64_t, std::int64_t)>& progress) {
    const RunSpec spec = spec_of(checkpoint);
    const RunPlan plan = inference_plan(spec, cuda);
    const auto source = open_data(data, spec, plan);
    if (source->num_targets() < 1) {
        fail(ExitCode::bad_input, data.string(), ": holds fewer than two tokens");
    }
    const std::int64_t sequences = std::min(plan.micro_batch_size, source->size());
    const auto model = load_model(checkpoint, backend, mesh, plan,
                                  {.sequences = sequences,
                                   .seq_length = plan.seq_length,
                                   .first_visible = spec.data.reset_at_eod});
    const BatchShape shape = {.seq_length = plan.seq_length,
                              .micro_batch_size = sequences,
                              .vocab_size = plan.model.vocab,
                              .eod_id = spec.data.eod_id,
                              .eod_mask_loss = spec.data.eod_mask_loss,
                              .reset_at_eod = spec.data.reset_at_eod};
    const std::int64_t batches = div_ceil(source->size(), sequences);
    BatchLoader loader(source, {.global_batch_size = sequences, .rampup = {}}, shape,
                       {.first_step = 1, .last_step = batches, .consumed_samples = 0});
    LossSum sum;
    for (std::int64_t i = 0; i < batches; ++i) {
        const StepBatch batch = loader.next();
        sum.add(model->loss(batch.microbatches.front(), batch.weight_sum));
        progress(i + 1, batches);
    }
    return {
        .loss = sum.mean(), .perplexity = std::exp(sum.mean()), .tokens = std::llround(sum.weight)};
}

}  // namespace gptrain
