#include "train/run_inputs.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "chat/chat_template.h"
#include "data/token_index.h"
#include "spec/plan_checks.h"
#include "stored/identity.h"
#include "tokenizer/tokenizer_config.h"

namespace gptrain {
namespace {

/// Calls `work` with the file that a key names. Its Errors are prefixed with the location of the
/// key.
auto with_key_location(const RunSpec& spec, std::string_view key, const auto& work) {
    try {
        return work();
    } catch (const Error& error) {
        fail(error.code(), located(spec.locations.of(key), text(key, ": ", error.what())));
    }
}

/// The path as written in the spec, with its location.
std::string path_as_written(const RunSpec& spec, const std::string& key,
                            const std::filesystem::path& path) {
    const auto value = spec.locations.values.find(key);
    return value == spec.locations.values.end() ? path.string() : value->second;
}

void require_sources(const RunSpec& spec, const std::string& key,
                     const std::vector<DataSource>& sources) {
    for (std::size_t i = 0; i < sources.size(); ++i) {
        const std::string prefix_key = text(key, ".", i, ".prefix");
        const std::string prefix = path_as_written(spec, prefix_key, sources[i].prefix);
        with_key_location(spec, prefix_key, [&] { require_token_files(prefix); });
    }
}

Tokenizer read_tokenizer_of(const RunSpec& spec, TokenizerInput& input) {
    const std::string key = "data.tokenizer";
    return with_key_location(spec, key, [&] {
        const std::filesystem::path& path = *spec.data.tokenizer;
        require_path(path_as_written(spec, key, path), ExitCode::bad_input, "file");
        const TokenizerFile file = read_tokenizer(path);
        input.bytes = file.bytes;
        input.companions = tokenizer_companions(file.file);
        input.folder = file.file.parent_path();
        return Tokenizer(file);
    });
}

/// The chat template of the token files.
ChatTemplateFile data_template(const DataSpec& data) {
    std::vector<std::filesystem::path> prefixes;
    for (const auto* sources : {&data.train, &data.validation})
        for (const DataSource& source : *sources)
            prefixes.push_back(source.prefix);
    return common_template(prefixes);
}

/// The chat template next to the tokenizer.
ChatTemplateFile tokenizer_template(const TokenizerInput& tokenizer) {
    for (const NamedFile& file : tokenizer.companions)
        if (file.name == chat_template_name) return {file.contents, tokenizer.folder / file.name};
    return {};
}

void check_prometheus(const RunSpec& spec) {
    const std::string key = "logging.prometheus";
    if (!spec.logging.prometheus) return;
    with_key_location(spec, key, [&] {
        const std::filesystem::path path = path_as_written(spec, key, *spec.logging.prometheus);
        if (path.extension() != ".prom") {
            fail(ExitCode::usage, path.string(),
                 ": the name must end in .prom; node_exporter reads no other files");
        }
        require_path(folder_of(path), ExitCode::usage, "folder", "; create it");
    });
}

/// Training samples of all steps. Steps before the checkpoint may have had other batch sizes.
std::int64_t run_samples(const RunPlan& plan, const std::optional<SavedData>& saved) {
    if (!saved) return plan.batch.samples_of(plan.steps);
    const std::int64_t steps = std::max<std::int64_t>(plan.steps - saved->step, 0);
    return plan.batch.samples_of(steps, saved->consumed_samples);
}

/// The tokens that end what the model writes, as they will be for its checkpoints (PromptCodec).
EndTokens end_tokens(const RunSpec& spec, const Tokenizer& tokenizer, const TokenizerInput& input) {
    EndTokens ends;
    if (spec.data.eod_id) ends.add(*spec.data.eod_id);
    if (tokenizer.eos_id()) ends.add(*tokenizer.eos_id());
    for (const NamedFile& file : input.companions) {
        const std::string source = (input.folder / file.name).string();
        const auto json = [&] { return parse_json(file.contents, source); };
        if (file.name == "generation_config.json")
            ends.add_generation_config(json(), source, tokenizer.vocab_size());
        if (file.name == "tokenizer_config.json")
            ends.add(tokenizer, token_in_config(json(), source, "eos_token"));
    }
    return ends;
}

/// The tasks that the spec asks for.
std::optional<RunTasks> read_tasks(const RunSpec& spec, const RunPlan& plan, Tokenizer tokenizer,
                                   const TokenizerInput& input) {
    if (!spec.eval_tasks) return std::nullopt;
    try {
        EndTokens ends = end_tokens(spec, tokenizer, input);
        return RunTasks(*spec.eval_tasks,
                        {.tokenizer = std::move(tokenizer),
                         .ends = std::move(ends),
                         .max_length = plan.seq_length - plan.model.virtual_tokens()});
    } catch (const Error& error) {
        // Faults inside a file name that file.
        const std::string_view message = error.what();
        if (!message.starts_with("eval_tasks")) throw;
        fail(error.code(), located(spec.locations.of(message), message));
    }
}

/// Completes and checks the plan's end-of-document id.
void take_end(EndOfDocument& end, const std::optional<std::int32_t>& eos_id) {
    if (end.id && eos_id && *end.id != *eos_id) {
        fail(ExitCode::usage, "data.eod_id is ", *end.id,
             ", but the tokenizer's end-of-document id is ", *eos_id, "; remove data.eod_id");
    }
    if (!end.id && eos_id) end.id = *eos_id;
    if ((end.mask_loss || end.reset) && !end.id) {
        fail(ExitCode::usage,
             "data.eod_id: the tokenizer has no end-of-document token; give the id");
    }
}

/// The same of the mask token, which must not be `end`.
void take_mask(MlmSpec& mlm, const TokenizerInput& tokenizer, const EndOfDocument& end,
               std::int64_t vocab_size) {
    const std::optional<std::int32_t>& known = tokenizer.mask_id;
    if (mlm.mask_id && known && *mlm.mask_id != *known) {
        fail(ExitCode::usage, "objective.mask_id is ", *mlm.mask_id,
             ", but the tokenizer's mask token is ", *known, "; remove objective.mask_id");
    }
    if (!mlm.mask_id && !known) {
        fail(ExitCode::usage,
             "objective.mask_id: the tokenizer has no mask token ([MASK], <mask> or <|mask|>); "
             "give an id that no text has, such as ",
             vocab_size, " with model.vocab_size ", vocab_size + 1);
    }
    if (!mlm.mask_id) mlm.mask_id = *known;
    if (end.id && *mlm.mask_id == *end.id) {
        fail(ExitCode::usage, "objective.mask_id ", *mlm.mask_id,
             " is the tokenizer's end of document as well; give an id that no text has, such as ",
             vocab_size, " with model.vocab_size ", vocab_size + 1);
    }
}

}  // namespace

CheckedInputs check_inputs(const RunSpec& spec, const RunPlan& plan) {
    if (spec.data.train.empty()) {
        const std::string key = "data.train";
        fail(ExitCode::usage,
             located(
                 spec.locations.of(key),
                 key + ": is empty; give the token files to train on, such as [{prefix: PATH}]"));
    }
    require_sources(spec, "data.train", spec.data.train);
    require_sources(spec, "data.validation", spec.data.validation);
    check_prometheus(spec);
    CheckedInputs checked;
    checked.chat_template = data_template(spec.data);
    if (!spec.data.tokenizer) return checked;
    TokenizerInput& input = checked.tokenizer;
    Tokenizer tokenizer = read_tokenizer_of(spec, input);
    if (checked.chat_template.path.empty()) checked.chat_template = tokenizer_template(input);
    const std::string path = spec.data.tokenizer->string();
    const std::int64_t vocab = spec.model.vocab_size;
    if (tokenizer.vocab_size() > vocab) {
        fail(ExitCode::usage, "model.vocab_size is ", vocab, ", but ", path, " has ",
             tokenizer.vocab_size(), " pieces; raise it to at least ", tokenizer.vocab_size());
    }
    input.eos_id = tokenizer.eos_id();
    input.mask_id = tokenizer.mask_id();
    input.expected = {"data.tokenizer " + path, text(tokenizer.fingerprint())};
    checked.tasks = read_tasks(spec, plan, std::move(tokenizer), input);
    return checked;
}

RunInputs open_inputs(const RunSpec& spec, const RunPlan& plan, const TokenizerInput& tokenizer,
                      const OpenInputs& from) {
    RunInputs inputs = {
        .spec = spec, .plan = plan, .data = {}, .tokenizer = tokenizer, .identity = {}};
    take_end(inputs.plan.end_of_document, tokenizer.eos_id);
    if (auto* const mlm = std::get_if<MlmSpec>(&inputs.plan.objective))
        take_mask(*mlm, tokenizer, inputs.plan.end_of_document, plan.model.vocab);
    const std::int64_t eval_samples = spec.training.eval_steps * plan.batch.global_batch_size;
    inputs.data = make_training_data(
        spec.data, {.seed = plan.seed,
                    .seq_length = plan.seq_length,
                    .num_samples = plan.num_samples,
                    .eval_samples = spec.training.eval_interval > 0 ? eval_samples : 0,
                    .cache = {from.cache, from.ranks},
                    .run_samples = run_samples(plan, from.saved),
                    .tokenizer = tokenizer.expected,
                    .saved = from.saved,
                    .virtual_tokens = plan.model.virtual_tokens()});
    inputs.plan.num_samples = inputs.data.num_samples;
    inputs.identity =
        run_identity(spec, inputs.plan, inputs.data,
                     {tokenizer.expected ? tokenizer.expected->fingerprint : "", from.adapted});
    return inputs;
}

}  // namespace gptrain
