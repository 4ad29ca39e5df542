#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "base/json.h"
#include "base/log.h"
#include "infer/evaluate.h"
#include "inference.h"

namespace gptrain {
namespace {

struct Options {
    ModelOptions model;
    EvaluationData data;
};

ExitCode run_eval(const Options& options) {
    return run_with_model(options.model, [&](const InferenceRun& run) {
        const EvaluationResult result =
            evaluate(run, options.data, [](std::int64_t done, std::int64_t total) {
                show_status(text("evaluated ", done, " of ", total, " batches"));
            });
        print(to_line(
            {{"loss", result.loss}, {"perplexity", result.perplexity}, {"tokens", result.tokens}}));
    });
}

}  // namespace

void add_eval(CLI::App& app, Command& chosen) {
    CLI::App* command = app.add_subcommand(
        "eval", "Measure the loss of a trained model; the last line of stdout is a JSON object");
    auto options = std::make_shared<Options>();
    add_model_options(*command, options->model);
    command
        ->add_option(
            "--data", options->data.path,
            "Prefix of a token data set (.bin and .idx); or a text file: JSON lines if named "
            ".jsonl or .json, otherwise plain text; .gz and .zst are decompressed")
        ->required()
        ->type_name("PREFIX|FILE");
    command
        ->add_option("--json-key", options->data.json_key,
                     "JSON lines: the key of the text (default: text)")
        ->type_name("KEY");
    command->final_callback(
        [&chosen, options] { chosen = [options] { return run_eval(*options); }; });
}

}  // namespace gptrain
