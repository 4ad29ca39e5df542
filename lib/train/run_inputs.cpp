#include "train/run_inputs.h"

#include <optional>
#include <string>

#include "base/error.h"
#include "base/file.h"
#include "text/tokenizer.h"
#include "train/identity.h"

namespace gptrain {
namespace {

/// Reads the tokenizer, fills in the end of document, and returns the tokenizer as the token files
/// should name it; nothing without one.
std::optional<ExpectedTokenizer> use_tokenizer(RunInputs& inputs) {
    DataSpec& data = inputs.spec.data;
    if (!data.tokenizer) return std::nullopt;
    const std::string path = data.tokenizer->string();
    inputs.tokenizer = read_file(path, max_tokenizer_bytes);
    const Tokenizer tokenizer(inputs.tokenizer, path);
    const std::int64_t vocab = inputs.plan.model.vocab;
    if (tokenizer.vocab_size() > vocab) {
        fail(ExitCode::usage, "model.vocab_size is ", vocab, " but ", path, " has ",
             tokenizer.vocab_size(), " pieces; raise it to that at least");
    }
    if (!data.eod_id) data.eod_id = tokenizer.eos_id();
    return ExpectedTokenizer{"data.tokenizer " + path, text(tokenizer.fingerprint())};
}

}  // namespace

RunInputs open_inputs(const RunSpec& spec, const RunPlan& plan,
                      const std::filesystem::path& cache) {
    RunInputs inputs = {.spec = spec, .plan = plan, .data = {}, .tokenizer = {}, .identity = {}};
    const std::optional<ExpectedTokenizer> tokenizer = use_tokenizer(inputs);
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
               .run_samples = plan.batch.samples_of(plan.steps),
               .tokenizer = tokenizer});
    inputs.plan.num_samples = inputs.data.num_samples;
    inputs.identity =
        run_identity(inputs.spec, plan, inputs.data, tokenizer ? tokenizer->fingerprint : "");
    return inputs;
}

}  // namespace gptrain
