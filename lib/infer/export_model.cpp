#include "infer/export_model.h"

#include <string>

#include "base/temporary_file.h"
#include "checkpoint/folder.h"
#include "infer/exported_tokenizer.h"
#include "interop/export_gguf.h"
#include "interop/export_hf.h"
#include "interop/export_peft.h"
#include "interop/gguf_model.h"
#include "interop/hf_folder.h"
#include "interop/tensor_names.h"
#include "spec/spec_json.h"

namespace gptrain {
namespace {

/// Adds the tokenizer and gives the folder its name.
void commit_folder(const TemporaryFolder& temporary, const HfTokenizer& tokenizer,
                   const std::filesystem::path& output) {
    for (const auto& [name, contents] : tokenizer.files)
        write_file_durably(temporary.path() / name, contents);
    sync_folder(temporary.path());
    rename_path(temporary.path(), output);
    sync_folder(folder_of(output));
}

/// Error (usage) if the run changed a value that no file of PEFT holds.
void check_adapted(const ModelShape& adapted, const InferenceRun& run) {
    const ModelShape& own = run.plan.model;
    const auto check = [&](std::string_view key, const auto& there, const auto& here) {
        if (there == here) return;
        const std::string remedy =
            own.prompt ? text("train the virtual tokens with model.", key, ": ", there)
                       : "write the whole model with --merge";
        fail(ExitCode::usage, run.source.folder().string(), ": its model.", key, " is ", here,
             ", but that of the adapted model ", run.source.adapted()->folder().string(), " is ",
             there, ", which PEFT would use; ", remedy);
    };
    check("norm_eps", adapted.norm_eps, own.norm_eps);
    if (own.position_embedding == PositionEmbedding::rope) {
        check("rope_theta", adapted.rope_theta, own.rope_theta);
        check("rope_theta.window", adapted.window_rope_theta.value_or(adapted.rope_theta),
              own.window_rope_theta.value_or(own.rope_theta));
    }
    const Json settings = attention_settings(own);
    const Json theirs = attention_settings(adapted);
    for (const auto& [key, value] : settings.items())
        check(key, to_line(theirs.at(key)), to_line(value));
}

}  // namespace

ExportedModel export_hf(const InferenceRun& run, const ExportOptions& options) {
    GPTRAIN_CHECK(run.ranks.size() == 1 && run.backend.is_host());
    require_new(options.output, "--output");
    remove_abandoned(options.output);
    const ModelShape model = without_adapter(run.plan.model);
    hf_class_of(model);
    HfTokenizer tokenizer = hf_tokenizer(run, options.tokenizer_from);
    ExportedModel result{.error = {},
                         .has_tokenizer = tokenizer.is_there(),
                         .max_positions = model.max_positions,
                         .context = model.max_positions};
    add_generation_config(run, tokenizer);

    MergedWeights weights(run.source, run.plan);
    const WeightReader ours = [&](const Shard& part, std::span<float> to) {
        weights.read(part, to);
    };
    const TemporaryFolder temporary(options.output.parent_path(),
                                    options.output.filename().string());
    write_hf_model(temporary.path(),
                   {.model = model,
                    .ids = tokenizer.ids,
                    .dtype = options.dtype,
                    .max_shard_bytes = options.max_shard_bytes},
                   ours);
    const HfFolder exported(temporary.path());
    exported.check(model, ours);
    result.error = compare_logits(
        run, [&](const Shard& part, std::span<float> to) { exported.read(part, to); },
        options.dtype, hf_tensor_names(model, hf_class_of(model)).norms_less_1);
    commit_folder(temporary, tokenizer, options.output);
    return result;
}

ExportedModel export_peft(const InferenceRun& run, const ExportOptions& options) {
    GPTRAIN_CHECK(run.ranks.size() == 1 && run.backend.is_host());
    require_new(options.output, "--output");
    remove_abandoned(options.output);
    const HfTokenizer tokenizer = hf_tokenizer(run, options.tokenizer_from);
    const ModelSource& adapted = *run.source.adapted();
    check_adapted(adapted.model(), run);
    SourceWeights weights(run.source);
    const HfClass hf_class = adapted.hf() != nullptr ? adapted.hf()->config().hf_class
                                                     : hf_class_of(without_adapter(run.plan.model));
    const TemporaryFolder temporary(options.output.parent_path(),
                                    options.output.filename().string());
    write_peft_adapter(temporary.path(),
                       {.model = run.plan.model,
                        .hf_class = hf_class,
                        .adapted_path = adapted.hf() != nullptr ? adapted.folder().string() : "",
                        .dtype = options.dtype},
                       [&](const Shard& part, std::span<float> to) { weights.read(part, to); });
    commit_folder(temporary, tokenizer, options.output);
    return {.error = {}, .has_tokenizer = tokenizer.is_there()};
}

ExportedModel export_gguf(const InferenceRun& run, const ExportOptions& options) {
    GPTRAIN_CHECK(run.ranks.size() == 1 && run.backend.is_host());
    require_new(options.output, "--output");
    remove_abandoned(options.output);
    const ModelShape model = without_adapter(run.plan.model);
    check_gguf_model(model);
    const GgufTokenizer tokenizer = gguf_tokenizer(run, options.tokenizer_from);
    ExportedModel result{.error = {},
                         .has_tokenizer = !tokenizer.bytes.empty(),
                         .max_positions = model.max_positions,
                         .context = gguf_context(model)};

    MergedWeights weights(run.source, run.plan);
    const WeightReader ours = [&](const Shard& part, std::span<float> to) {
        weights.read(part, to);
    };
    create_folders(options.output.parent_path());
    TemporaryFile temporary(temporary_path(options.output));
    write_gguf_model(temporary.path(),
                     {.model = model,
                      .tokenizer = tokenizer,
                      .name = options.output.stem().string(),
                      .dtype = options.dtype},
                     ours);
    const GgufModel exported(temporary.path(), model);
    exported.check(ours);
    result.error = compare_logits(
        run, [&](const Shard& part, std::span<float> to) { exported.read(part, to); },
        options.dtype);
    temporary.move_to(options.output);
    sync_folder(folder_of(options.output));
    return result;
}

}  // namespace gptrain
