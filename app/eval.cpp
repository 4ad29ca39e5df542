#include <memory>
#include <string>

#include "base/json.h"
#include "base/log.h"
#include "commands.h"
#include "device.h"
#include "train/evaluate.h"
#include "train/resume.h"

namespace gptrain {
namespace {

struct Options {
    std::string checkpoint;
    std::string data;
};

ExitCode run_eval(const Options& options) {
    const ValidCheckpoint checkpoint = open_checkpoint(options.checkpoint);
    const Device device = open_device(spec_of(checkpoint).device);
    const Mesh mesh = one_rank_mesh();
    const EvaluationResult result =
        evaluate(checkpoint, options.data, *device.backend, mesh, device.cuda,
                 [](std::int64_t done, std::int64_t total) {
                     show_status(text("evaluated ", done, " of ", total, " batches"));
                 });
    print(to_line(
        {{"loss", result.loss}, {"perplexity", result.perplexity}, {"tokens", result.tokens}}));
    return ExitCode::done;
}

}  // namespace

void add_eval(CLI::App& app, Command& chosen) {
    CLI::App* command = app.add_subcommand(
        "eval", "Measure the loss of a trained model; the last line of stdout is a JSON object");
    auto options = std::make_shared<Options>();
    command
        ->add_option("--checkpoint", options->checkpoint,
                     "A checkpoint, or an output directory (its newest valid checkpoint)")
        ->required()
        ->type_name("DIR");
    command
        ->add_option("--data", options->data,
                     "Prefix of a token data set (.bin and .idx), or a text file")
        ->required()
        ->type_name("PREFIX|TEXT-FILE");
    command->final_callback(
        [&chosen, options] { chosen = [options] { return run_eval(*options); }; });
}

}  // namespace gptrain
