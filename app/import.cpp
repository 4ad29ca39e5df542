#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>

#include "base/file.h"
#include "base/log.h"
#include "base/output_file.h"
#include "commands.h"
#include "infer/import_model.h"
#include "ranks.h"

namespace gptrain {
namespace {

struct ImportCommand {
    std::filesystem::path from;
    std::filesystem::path output;
};

void run_import(const ImportCommand& options, const MpiSession& session) {
    require_one_rank(session, "import");
    refuse_stdout(options.output, "--output");
    const std::filesystem::path output = absolute_path(options.output);
    const ImportedModel model = import_model(options.from, output);
    if (!model.tokenizer_fault.empty())
        warn(model.tokenizer_fault, "; the model reads and writes token ids");
    print("imported ", grouped(model.parameters), " parameters to ", output.string(), ": ",
          human_bytes(model.bytes));
}

}  // namespace

void add_import(CLI::App& app, Command& chosen) {
    CLI::App* command = app.add_subcommand("import", "Import a Hugging Face model as a checkpoint");
    auto options = std::make_shared<ImportCommand>();
    command
        ->add_option("from", options->from,
                     "The model's folder, with config.json and the weights as safetensors")
        ->required()
        ->type_name("HF-DIR");
    command->add_option("--output", options->output, "The checkpoint to write")
        ->required()
        ->type_name("DIR");
    command->final_callback([&chosen, options] {
        chosen = [options] {
            Ranks ranks;
            return ranks.run([&] {
                run_import(*options, ranks.session());
                return ExitCode::done;
            });
        };
    });
}

}  // namespace gptrain
