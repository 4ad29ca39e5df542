#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "base/file.h"
#include "base/log.h"
#include "base/output_file.h"
#include "commands.h"
#include "help/option_checks.h"
#include "infer/export_model.h"
#include "inference.h"
#include "ranks.h"

namespace gptrain {
namespace {

struct ExportCommand {
    ModelOptions model;
    std::string format;
    std::string dtype = "fp32";
    std::string max_shard_size;
    bool merge = false;
    ExportOptions to;
};

DType dtype_of(const std::string& word) {
    for (const DType dtype : {DType::bf16, DType::f16, DType::f32})
        if (word == name_of(dtype)) return dtype;
    fail(ExitCode::usage, "--dtype ", word, ": must be bf16, fp16 or fp32");
}

std::int64_t shard_bytes(const ExportCommand& options) {
    constexpr std::int64_t usual_bytes = 5'000'000'000;
    const std::string& word = options.max_shard_size;
    if (word.empty()) return usual_bytes;
    if (options.format != "hf") {
        fail(ExitCode::usage, "--max-shard-size ", word, ": --format ", options.format,
             " writes one file; remove it");
    }
    return parse_size("--max-shard-size", word, "5GB");
}

/// `adapter`: it was exported alone.
void print_result(const ExportedModel& exported, const ExportOptions& options, bool adapter) {
    const std::string output = options.output.string();
    if (!exported.has_tokenizer)
        warn(output,
             ": was written without a tokenizer, because the checkpoint has none that this format "
             "supports; add --tokenizer-from");
    if (const auto& error = exported.error) {
        print("read back: the logits of ", error->tokens, " tokens differ by at most ",
              error->difference, "; the largest is ", error->largest);
    } else if (!adapter) {
        warn(output,
             ": its logits were not compared with the checkpoint's, because the model does "
             "not fit in memory");
    }
    if (exported.context < exported.max_positions) {
        warn(output, ": is for texts of at most ", exported.context,
             " tokens, not model.max_position_embeddings ", exported.max_positions,
             ", because llama.cpp has no model.sliding_window");
    }
    print("exported ", adapter ? "the adapter " : "", "to ", output, " in ",
          name_of(options.dtype));
}

ExitCode run_export(ExportCommand options) {
    options.to.dtype = dtype_of(options.dtype);
    options.to.max_shard_bytes = shard_bytes(options);
    refuse_stdout(options.to.output, "--output");
    options.to.output = absolute_path(options.to.output);
    options.model.settings = {"device=cpu"};
    return run_with_model(options.model, [&](const InferenceRun& run) {
        require_one_rank(run.ranks, "export");
        if (std::holds_alternative<MlmSpec>(run.plan.objective)) {
            fail(ExitCode::usage, run.source.folder().string(),
                 ": neither transformers nor llama.cpp has a class for these blocks with objective "
                 "mlm; model.h5 in the checkpoint has the weights");
        }
        const bool adapter = run.source.adapted() != nullptr && !options.merge;
        if (options.merge && run.source.adapted() == nullptr) {
            fail(ExitCode::usage, "--merge: ", run.source.folder().string(),
                 " is not an adapter; remove it");
        }
        const bool prompt = run.plan.model.prompt.has_value();
        if (options.merge && prompt) {
            fail(ExitCode::usage, "--merge: ", run.source.folder().string(),
                 " has virtual tokens, which cannot be merged into a model; remove it");
        }
        if (adapter && options.format == "gguf") {
            fail(ExitCode::usage, "--format gguf: ", run.source.folder().string(),
                 " is an adapter; ", prompt ? "" : "add --merge, or ",
                 "write it with --format hf for PEFT");
        }
        const auto export_as = adapter                  ? export_peft
                               : options.format == "hf" ? export_hf
                                                        : export_gguf;
        print_result(export_as(run, options.to), options.to, adapter);
    });
}

}  // namespace

void add_export(CLI::App& app, Command& chosen) {
    CLI::App* command = app.add_subcommand(
        "export", "Write a trained model for Hugging Face's transformers or llama.cpp");
    auto options = std::make_shared<ExportCommand>();
    add_checkpoint(*command, options->model.checkpoint,
                   "A checkpoint, an output directory (its newest valid checkpoint), or an adapter "
                   "of PEFT",
                   "OUTPUT-DIR|CHECKPOINT|PEFT-DIR");
    command
        ->add_option("--format", options->format,
                     "hf: a folder with config.json, weights as safetensors and tokenizer files, "
                     "or of an adapter what PEFT reads; gguf: one file for llama.cpp")
        ->required()
        ->type_name("hf|gguf")
        ->check(CLI::IsMember({"hf", "gguf"}).description(""));
    command->add_option("--output", options->to.output, "The folder or file to write")
        ->required()
        ->type_name("PATH");
    command->add_option("--dtype", options->dtype, "Dtype of the weights")
        ->type_name("bf16|fp16|fp32")
        ->capture_default_str();
    command->add_flag("--merge", options->merge,
                      "Write the whole model with the checkpoint's adapter merged into it");
    add_adapted_option(*command, options->model);
    command
        ->add_option("--max-shard-size", options->max_shard_size,
                     "Largest file of weights with hf; a larger model is split into several")
        ->type_name("SIZE")
        ->default_str("5GB");
    command
        ->add_option("--tokenizer-from", options->to.tokenizer_from,
                     "A folder whose tokenizer to write instead of the checkpoint's")
        ->type_name("DIR");
    add_tokenizer_option(*command, options->model);
    command->final_callback(
        [&chosen, options] { chosen = [options] { return run_export(*options); }; });
}

}  // namespace gptrain
