#include "train/run_inputs.h"

#include <string>

#include "base/error.h"
#include "text/tokenizer.h"
#include "train/identity.h"

namespace gptrain {
namespace {

/// Fills in the end of document; returns the tokenizer's fingerprint, empty without one.
std::string use_tokenizer(RunSpec& spec, const RunPlan& plan) {
    if (!spec.data.tokenizer) return "";
    const Tokenizer tokenizer(*spec.data.tokenizer);
    if (tokenizer.vocab_size() > plan.model.vocab) {
        fail(ExitCode::usage, "model.vocab_size is ", plan.model.vocab, " but ",
             spec.data.tokenizer->string(), " has ", tokenizer.vocab_size(),
             " pieces; raise it to that at least");
    }
    if (!spec.data.eod_id) spec.data.eod_id = tokenizer.eos_id();
    return text(tokenizer.fingerprint());
}

}  // namespace

RunInputs open_inputs(const RunSpec& spec, const RunPlan& plan,
                      const std::filesystem::path& cache) {
    RunInputs inputs = {.spec = spec, .plan = plan, .data = {}, .identity = {}};
    const std::string tokenizer = use_tokenizer(inputs.spec, plan);
    const DataSpec& data = inputs.spec.data;
    if ((data.eod_mask_loss || data.reset_at_eod) && !data.eod_id) {
        fail(ExitCode::usage,
             "data.eod_id: the tokenizer has no end-of-document piece; give the id");
    }
    const std::int64_t eval_samples = spec.training.eval_steps * plan.batch.global_batch_size;
    inputs.data = make_training_data(
        data, {.seed = spec.seed,
               .seq_length = plan.seq_length,
               .num_samples = plan.num_samples,
               .eval_samples = spec.training.eval_interval > 0 ? eval_samples : 0,
               .cache_folder = cache,
               .run_samples = plan.batch.samples_of(plan.steps)});
    inputs.identity = run_identity(inputs.spec, plan, inputs.data, tokenizer);
    return inputs;
}

}  // namespace gptrain
