#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/log.h"
#include "checkpoint/describe.h"
#include "checkpoint/folder.h"
#include "commands.h"
#include "data/indexed_dataset.h"
#include "data/token_meta.h"
#include "data/training_data.h"
#include "device.h"
#include "spec/make_plan.h"

namespace gptrain {
namespace {

struct Options {
    std::filesystem::path path;
    std::vector<std::string> settings;
    bool verify = false;
};

ExitCode inspect_checkpoints(const std::filesystem::path& folder, bool verify) {
    const FolderDescription description = describe_checkpoints(folder, verify);
    for (const std::string& line : description.lines)
        print(line);
    if (description.lines.empty()) print("no committed checkpoint in ", folder.string());
    return description.newest_valid ? ExitCode::done : ExitCode::bad_input;
}

void inspect_spec(const Options& options) {
    const RunSpec spec = load_run_spec(options.path, options.settings);
    const RunPlan plan = make_plan(spec, {.world_size = min_ranks(spec.parallel),
                                          .cuda = plan_for_cuda(spec.device),
                                          .dry_run = true});
    print(to_yaml(effective_spec(spec, plan)));
    print(describe(plan, count_training_tokens(spec.data).value_or(0)));
}

void inspect_tokens(const Options& options) {
    const IndexedDataset data(options.path);
    print("token data set ", options.path.string());
    print("  documents    ", data.num_documents());
    print("  sequences    ", data.num_sequences());
    print("  tokens       ", data.num_tokens());
    print("  ids          ", name_of(data.dtype()));
    print("  fingerprint  ", data.fingerprint());
    const std::optional<TokenMeta> meta = read_token_meta(data);
    print("  made with    ", meta ? describe(*meta) : "an unknown tokenizer (no .meta.json)");
}

bool is_token_data(const std::filesystem::path& prefix) {
    return std::filesystem::exists(prefix.string() + ".idx") ||
           std::filesystem::exists(prefix.string() + ".bin");
}

bool is_checkpoint(const std::filesystem::path& path) {
    return std::filesystem::is_directory(path) &&
           (std::filesystem::exists(path / "manifest.json") ||
            checkpoint_step(path.filename().string()));
}

/// A folder named checkpoints, even if no run has created it yet, or one that contains checkpoints.
bool is_checkpoints_folder(const std::filesystem::path& path) {
    const auto name = path.has_filename() ? path.filename() : path.parent_path().filename();
    if (!std::filesystem::exists(path)) return name == "checkpoints";
    return std::filesystem::is_directory(path) &&
           (name == "checkpoints" || !list_checkpoints(path).empty());
}

ExitCode inspect(const Options& options) {
    namespace fs = std::filesystem;
    const fs::path& path = options.path;
    if (named_yaml(path)) {
        inspect_spec(options);
    } else if (!options.settings.empty()) {
        fail(ExitCode::usage, "--set changes a run spec, but ", path.string(), " is not one");
    } else if (is_token_data(path)) {
        inspect_tokens(options);
    } else if (is_checkpoint(path)) {
        for (const std::string& line : describe_checkpoint(path, options.verify))
            print(line);
    } else if (is_checkpoints_folder(path)) {
        return inspect_checkpoints(path, options.verify);
    } else if (fs::is_directory(path / "checkpoints")) {
        return inspect_checkpoints(path / "checkpoints", options.verify);
    } else {
        require_path(path, ExitCode::usage, "file, token data set or folder");
        fail(ExitCode::usage, path.string(),
             ": not a run spec (.yaml), token data prefix (.bin and .idx), checkpoint, "
             "checkpoints/ folder or output directory");
    }
    return ExitCode::done;
}

}  // namespace

void add_inspect(CLI::App& app, Command& chosen) {
    CLI::App* command = app.add_subcommand(
        "inspect",
        "Show the contents of a run spec, token data set, checkpoint or checkpoints/ folder");
    auto options = std::make_shared<Options>();
    command
        ->add_option(
            "what", options->path,
            "RUN.yaml: the effective spec and plan; DATA-PREFIX: counts of a token data "
            "set; a checkpoint: its contents; checkpoints/ or an output directory: one line "
            "per checkpoint; exit code 0 if the newest verifies or none was ever "
            "committed")
        ->required()
        ->type_name("RUN.yaml|DATA-PREFIX|CHECKPOINT-DIR|OUTPUT-DIR");
    add_settings(*command, options->settings);
    command->add_flag("--verify", options->verify, "Read and check every byte of checkpoints");
    command->final_callback(
        [&chosen, options] { chosen = [options] { return inspect(*options); }; });
}

}  // namespace gptrain
