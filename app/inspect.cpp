#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/log.h"
#include "base/terminal.h"
#include "chat/conversation.h"
#include "checkpoint/describe.h"
#include "checkpoint/folder.h"
#include "checkpoint/shard_record.h"
#include "checkpoint/view.h"
#include "commands.h"
#include "data/indexed_dataset.h"
#include "data/token_meta.h"
#include "data/training_data.h"
#include "device.h"
#include "infer/inference.h"
#include "inference.h"
#include "interop/hf_folder.h"
#include "search/table_text.h"
#include "spec/make_plan.h"
#include "spec/spec_json.h"
#include "spec/yaml_tree.h"
#include "train/choose_resets.h"

namespace gptrain {
namespace {

struct InspectCommand {
    std::string path;
    std::vector<std::string> settings;
    std::filesystem::path tokenizer;
    bool verify = false;
    bool view = false;
};

constexpr std::int64_t shown_documents = 3;
constexpr std::int64_t shown_tokens = 200;  // of each

ExitCode inspect_checkpoints(const std::filesystem::path& folder, bool verify) {
    const FolderDescription description = describe_checkpoints(folder, verify);
    for (const std::string& line : description.lines)
        print(line);
    if (description.lines.empty()) print("no committed checkpoint in ", folder.string());
    return description.newest_valid ? ExitCode::done : ExitCode::bad_input;
}

void view_checkpoint(const std::filesystem::path& folder) {
    const Manifest manifest = read_manifest(folder);
    const RunSpec spec = inference_spec(folder, manifest.meta, {});
    write_view(folder, manifest, to_json(spec).at("model"));
    print("wrote ", (folder / model_index_name).string());
}

/// The share of each source in a blend.
void print_blend(std::string_view what, const std::vector<DataSource>& sources) {
    if (sources.size() < 2) return;
    double sum = 0;
    for (const DataSource& source : sources)
        sum += source.weight;
    for (const DataSource& source : sources)
        print(padded_right(what, 15), fixed(100 * source.weight / sum, 1),
              " % of the samples from ", source.prefix.string());
}

void inspect_spec(const InspectCommand& options) {
    RunSpec spec = load_run_spec(options.path, options.settings);
    choose_resets(spec);
    const RunPlan plan = make_plan(spec, {.world_size = min_ranks(spec.parallel),
                                          .cuda = plan_for_cuda(spec.device),
                                          .dry_run = true});
    print(to_yaml(effective_spec(spec, plan)));
    print(
        describe(plan, count_training_tokens(spec.data, plan.model.virtual_tokens()).value_or(0)));
    print_blend("training", spec.data.train);
    print_blend("validation", spec.data.validation);
}

/// Prints the `model` section of a run that starts from this folder.
void inspect_hf_folder(const std::filesystem::path& path) {
    const HfFolder folder(path);
    warn_of_unused_tensors(folder);
    YamlNode spec = parse_yaml(to_yaml(folder.spec()), {.name = path.string()});
    std::erase_if(spec.members, [](const YamlMember& member) { return member.key != "model"; });
    print("model of Hugging Face's transformers ", path.string());
    print(to_yaml(spec));
}

/// The first documents as text, with the learned text marked.
void show_documents(const IndexedDataset& data, const std::filesystem::path& path) {
    const Tokenizer tokenizer(path);
    if (data.meta()) {
        check_tokenizer(data.prefix(), *data.meta(),
                        {"--tokenizer " + path.string(), text(tokenizer.fingerprint())});
    }
    const LearnedMarks marks = data.masked() ? learned_marks() : LearnedMarks{};
    for (std::int64_t i = 0; i < std::min(shown_documents, data.num_documents()); ++i) {
        const DocumentTokens tokens = first_tokens(data, i, shown_tokens);
        const bool more = std::ssize(tokens.ids) == shown_tokens;
        check_ids(tokenizer, tokens.ids, data.prefix(), i);
        print("document ", i, more ? text(" (its first ", shown_tokens, " tokens)") : "", ":");
        print_sequences(text(show_learned(tokenizer, tokens.ids, tokens.learned, marks), "\n"));
    }
}

void inspect_tokens(const InspectCommand& options) {
    const IndexedDataset data(options.path);
    print("token data set ", data.prefix().string());
    print("  documents    ", data.num_documents());
    print("  sequences    ", data.num_sequences());
    print("  tokens       ", data.num_tokens());
    print("  ids          ", name_of(data.dtype()));
    print("  fingerprint  ", data.fingerprint());
    const std::optional<TokenMeta>& meta = data.meta();
    print("  made with    ", meta ? describe(*meta) : "an unknown tokenizer (no .meta.json)");
    if (data.masked()) {
        const std::int64_t learned = data.learned_tokens(0, data.num_sequences());
        print("  learned      ", learned, " (", percent(learned, data.num_tokens()), ")");
        if (data.weighted())
            print("  weights      ", data.weighted_tokens(), " of them count less than 1");
    }
    if (!options.tokenizer.empty()) show_documents(data, options.tokenizer);
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

ExitCode inspect(const InspectCommand& options) {
    namespace fs = std::filesystem;
    const bool is_there = fs::exists(options.path) || has_token_file(options.path);
    const fs::path path = is_there ? fs::path(options.path) : token_prefix(options.path);
    if (!options.tokenizer.empty() && !has_token_file(path)) {
        fail(ExitCode::usage, "--tokenizer shows token data as text, but ", path.string(),
             " is not token data");
    }
    if (options.view && !is_checkpoint(path)) {
        fail(ExitCode::usage, "--view makes model.h5 of a checkpoint, but ", path.string(),
             " is not one");
    }
    if (named_yaml(path)) {
        inspect_spec(options);
    } else if (!options.settings.empty()) {
        fail(ExitCode::usage, "--set changes a run spec, but ", path.string(), " is not one");
    } else if (has_token_file(path)) {
        inspect_tokens(options);
    } else if (options.view) {
        view_checkpoint(path);
    } else if (is_checkpoint(path)) {
        for (const std::string& line : describe_checkpoint(path, options.verify))
            print(line);
    } else if (is_hf_folder(path)) {
        inspect_hf_folder(path);
    } else if (is_checkpoints_folder(path)) {
        return inspect_checkpoints(path, options.verify);
    } else if (fs::is_directory(path / "checkpoints")) {
        return inspect_checkpoints(path / "checkpoints", options.verify);
    } else {
        require_path(path, ExitCode::usage, "file, token data set or folder");
        fail(ExitCode::usage, path.string(),
             ": not a run spec (.yaml), token data prefix (.bin and .idx), checkpoint, "
             "checkpoints/ folder, output directory or Hugging Face model folder");
    }
    return ExitCode::done;
}

}  // namespace

void add_inspect(CLI::App& app, Command& chosen) {
    CLI::App* command = app.add_subcommand(
        "inspect",
        "Show the contents of a run spec, token data set, checkpoint, checkpoints/ folder or "
        "Hugging Face model folder");
    auto options = std::make_shared<InspectCommand>();
    add_checkpoint(*command, options->path,
                   "RUN.yaml: the effective spec and plan; DATA-PREFIX: counts of a token data "
                   "set; a checkpoint: its contents; checkpoints/ or an output directory: one line "
                   "per checkpoint; exit code 0 if the newest verifies or none was ever "
                   "committed; a Hugging Face model folder: the model section of a run spec",
                   "RUN.yaml|DATA-PREFIX|CHECKPOINT-DIR|OUTPUT-DIR|HF-DIR");
    add_settings(*command, options->settings);
    command
        ->add_option("--tokenizer", options->tokenizer,
                     "Show the first documents of a token data set as text, learned text in colour "
                     "or between {+ and +}")
        ->type_name("FILE");
    command->add_flag("--verify", options->verify, "Read and check every byte of checkpoints");
    command->add_flag("--view", options->view,
                      "Make the model.h5 of a checkpoint that was saved without it or has lost it");
    command->final_callback(
        [&chosen, options] { chosen = [options] { return inspect(*options); }; });
}

}  // namespace gptrain
