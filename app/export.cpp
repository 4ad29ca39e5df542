#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <string>

#include "base/file.h"
#include "base/log.h"
#include "commands.h"
#include "infer/export_model.h"
#include "inference.h"
#include "ranks.h"

namespace gptrain {
namespace {

struct Options {
    ModelOptions model;
    std::string format;
    std::string dtype = "fp32";
    std::string max_shard_size = "5GB";
    ExportOptions to;
};

DType dtype_of(const std::string& word) {
    for (const DType dtype : {DType::bf16, DType::f16, DType::f32})
        if (word == name_of(dtype)) return dtype;
    fail(ExitCode::usage, "--dtype ", word, ": must be bf16, fp16 or fp32");
}

std::int64_t shard_bytes(const std::string& word) {
    const auto bytes = parse_bytes(word);
    if (!bytes) {
        fail(ExitCode::usage, "--max-shard-size ", word,
             ": give a number above 0 with its unit, one of MB, GB, TB, MiB, GiB and TiB, such as "
             "5GB");
    }
    return *bytes;
}

void print_result(const ExportedModel& exported, const ExportOptions& options) {
    const std::string output = options.output.string();
    if (!exported.has_tokenizer)
        warn(output, ": has no tokenizer, because the checkpoint has none; see --tokenizer-from");
    if (const auto& error = exported.error) {
        print("read back: the logits of ", error->tokens, " tokens differ by at most ",
              error->difference, "; the largest is ", error->largest);
    } else {
        warn(output,
             ": its logits were not compared with the checkpoint's, because the model does "
             "not fit in memory");
    }
    print("exported to ", output, " in ", name_of(options.dtype));
}

ExitCode run_export(Options options) {
    options.to.dtype = dtype_of(options.dtype);
    options.to.max_shard_bytes = shard_bytes(options.max_shard_size);
    options.to.output = absolute_path(options.to.output);
    options.model.settings = {"device=cpu"};
    return run_with_model(options.model, [&](const InferenceRun& run) {
        require_one_rank(run.ranks, "export");
        print_result(export_hf(run, options.to), options.to);
    });
}

}  // namespace

void add_export(CLI::App& app, Command& chosen) {
    CLI::App* command =
        app.add_subcommand("export", "Write a trained model for Hugging Face's transformers");
    auto options = std::make_shared<Options>();
    command
        ->add_option("checkpoint", options->model.checkpoint,
                     "A checkpoint, or an output directory (its newest valid checkpoint)")
        ->required()
        ->type_name("CHECKPOINT");
    command
        ->add_option("--format", options->format,
                     "hf: a folder with config.json, weights as safetensors and tokenizer files")
        ->required()
        ->check(CLI::IsMember({"hf"}));
    command->add_option("--output", options->to.output, "The folder to write")
        ->required()
        ->type_name("PATH");
    command->add_option("--dtype", options->dtype, "Of the weights: bf16, fp16 or fp32")
        ->capture_default_str();
    command
        ->add_option("--max-shard-size", options->max_shard_size,
                     "Largest file of weights; a larger model is split into several")
        ->type_name("SIZE")
        ->capture_default_str();
    command
        ->add_option("--tokenizer-from", options->to.tokenizer_from,
                     "A folder whose tokenizer files to copy instead of the checkpoint's")
        ->type_name("DIR");
    command
        ->add_option("--tokenizer", options->model.tokenizer,
                     "The tokenizer that the model was trained with, for checkpoints of older "
                     "versions, which do not contain it")
        ->type_name("FILE");
    command->final_callback(
        [&chosen, options] { chosen = [options] { return run_export(*options); }; });
}

}  // namespace gptrain
