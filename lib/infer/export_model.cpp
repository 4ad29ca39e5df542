#include "infer/export_model.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "base/temporary_file.h"
#include "checkpoint/element_reader.h"
#include "checkpoint/folder.h"
#include "engine/memory_check.h"
#include "infer/logits.h"
#include "interop/export_hf.h"
#include "interop/hf_folder.h"
#include "interop/tokenizer_json.h"
#include "train/resume.h"

namespace gptrain {
namespace {

constexpr std::int64_t compared_tokens = 32;
// Of the largest logit; fp32 weights must come back unchanged.
constexpr float fp32_tolerance = 1e-6F;

using NamedFiles = std::vector<std::pair<std::string, std::string>>;

/// The files of transformers' tokenizer and the ids of its special tokens.
struct TokenizerExport {
    NamedFiles files;
    SpecialIds ids;
};

NamedFiles files_in(const std::filesystem::path& folder) {
    NamedFiles files;
    for (const std::string_view name : hf_tokenizer_names) {
        std::error_code ignored;
        if (std::filesystem::exists(folder / name, ignored))
            files.emplace_back(name, read_file(folder / name, max_hf_file_bytes));
    }
    if (files.empty())
        fail(ExitCode::usage, "--tokenizer-from ", folder.string(), ": has no tokenizer file");
    return files;
}

NamedFiles files_in(const RestartPoint& checkpoint) {
    NamedFiles files;
    for (const std::string_view name : hf_tokenizer_names) {
        if (auto contents = checkpoint.whole_file(std::string(name), max_hf_file_bytes))
            files.emplace_back(name, *std::move(contents));
    }
    return files;
}

bool has(const NamedFiles& files, std::string_view name) {
    return std::any_of(files.begin(), files.end(),
                       [&](const auto& file) { return file.first == name; });
}

/// A tokenizer.json that came without its configuration, as gpt-preprocess trains them, gets one.
void add_tokenizer_config(const InferenceRun& run, TokenizerExport& tokenizer) {
    const bool alone =
        has(tokenizer.files, "tokenizer.json") && !has(tokenizer.files, "tokenizer_config.json");
    const auto own = alone ? run.tokenizer.open() : std::nullopt;
    if (!own) return;
    tokenizer.ids.eos = own->eos_id();
    const Json json = parse_json(*run.tokenizer.bytes(), "tokenizer.json");
    std::string eos;
    for (const Json& token : json.value("added_tokens", Json::array()))
        if (token.value("id", -1) == own->eos_id()) eos = token.value("content", "");
    tokenizer.files.emplace_back("tokenizer_config.json",
                                 tokenizer_config({.eos = eos}, run.plan.model.max_positions));
}

/// The model file of the run itself becomes tokenizer.json: transformers would misread it.
void convert_own_model(const InferenceRun& run, TokenizerExport& tokenizer) {
    const auto& bytes = run.tokenizer.bytes();
    if (!bytes || has(tokenizer.files, "tokenizer.json")) return;
    const auto own = tokenizer_files(*bytes, (run.source.folder() / "tokenizer.model").string(),
                                     run.plan.model.max_positions);
    if (!own) return;
    tokenizer.files = {{"tokenizer.json", own->tokenizer_json},
                       {"tokenizer_config.json", own->tokenizer_config}};
    tokenizer.ids = own->ids;
}

TokenizerExport tokenizer_of(const InferenceRun& run, const ExportOptions& options) {
    TokenizerExport tokenizer;
    if (options.tokenizer_from.empty()) {
        tokenizer.files = files_in(run.source.checkpoint());
        const auto& bytes = run.tokenizer.bytes();
        if (bytes && tokenizer.files.empty())
            tokenizer.files.emplace_back("tokenizer.model", *bytes);
        convert_own_model(run, tokenizer);
        add_tokenizer_config(run, tokenizer);
    } else {
        tokenizer.files = files_in(options.tokenizer_from);
    }
    if (run.plan.end_of_document.id) tokenizer.ids.eos = run.plan.end_of_document.id;
    return tokenizer;
}

/// Adds generation_config.json: an imported model's own, whose ids then hold.
void add_generation_config(const InferenceRun& run, TokenizerExport& tokenizer) {
    const std::string name(hf_generation_name);
    const auto kept = run.source.whole_file(name, max_hf_file_bytes);
    if (!kept) {
        tokenizer.files.emplace_back(name, generation_config(tokenizer.ids));
        return;
    }
    const std::string source = (run.source.folder() / name).string();
    tokenizer.ids = special_ids(parse_json(*kept, source), source, run.plan.model.vocab);
    tokenizer.files.emplace_back(name, *kept);
}

LogitError difference(const std::vector<float>& ours, const std::vector<float>& theirs,
                      std::int64_t tokens) {
    GPTRAIN_CHECK(ours.size() == theirs.size());
    LogitError error{.tokens = tokens};
    for (std::size_t i = 0; i < ours.size(); ++i) {
        const float apart = std::abs(ours[i] - theirs[i]);
        if (!std::isfinite(apart)) {
            fail(ExitCode::numerical, "the logits of the ",
                 std::isfinite(ours[i]) ? "exported model" : "checkpoint", " are not finite");
        }
        error.difference = std::max(error.difference, apart);
        error.largest = std::max(error.largest, std::abs(ours[i]));
    }
    return error;
}

std::vector<std::int32_t> fixed_tokens(const ModelShape& model) {
    std::vector<std::int32_t> ids;
    for (std::int64_t i = 0; i < std::min(compared_tokens, model.max_positions); ++i)
        ids.push_back(static_cast<std::int32_t>((7919 * i + 11) % model.vocab));
    return ids;
}

/// Reads the export back and compares. Nothing if the model does not fit in memory.
std::optional<LogitError> compare(const InferenceRun& run, const std::filesystem::path& folder) {
    const HfFolder exported(folder);
    const std::vector<std::int32_t> ids = fixed_tokens(run.plan.model);
    const LogitComputer computer(run.backend, run.mesh, run.plan, ids);
    if (MemoryCheck(run.backend, run.ranks).find_shortage(computer.memory())) return std::nullopt;
    const auto ours =
        computer.compute([&](InferenceModel& model) { model.load(run.source, run.ranks); });
    const auto theirs = computer.compute([&](InferenceModel& model) {
        model.load([&](const Shard& part, std::span<float> to) { exported.read(part, to); });
    });
    return difference(ours, theirs, std::ssize(ids));
}

}  // namespace

ExportedModel export_hf(const InferenceRun& run, const ExportOptions& options) {
    GPTRAIN_CHECK(run.ranks.size() == 1 && run.backend.is_host());
    require_new(options.output, "--output");
    const ModelShape& model = run.plan.model;
    hf_class_of(model);
    TokenizerExport tokenizer = tokenizer_of(run, options);
    ExportedModel result{.error = {}, .has_tokenizer = !tokenizer.files.empty()};
    add_generation_config(run, tokenizer);

    const Manifest manifest = read_manifest(run.source.folder());
    ElementReader reader(run.source.folder(), manifest);
    const WeightReader weights = [&](const Shard& part, std::span<float> to) {
        const TensorRecord* tensor = manifest.find("weight", part.name);
        if (tensor == nullptr || tensor->shape != part.global) {
            fail(ExitCode::bad_input, run.source.folder().string(), ": has no tensor weight/",
                 part.name, " of shape ", part.global.to_text());
        }
        reader.read(part, *tensor, std::as_writable_bytes(to));
    };
    const TemporaryFolder temporary(options.output.parent_path(),
                                    options.output.filename().string());
    write_hf_model(temporary.path(),
                   {.model = model,
                    .ids = tokenizer.ids,
                    .dtype = options.dtype,
                    .max_shard_bytes = options.max_shard_bytes},
                   weights);
    for (const auto& [name, contents] : tokenizer.files)
        write_file_durably(temporary.path() / name, contents);
    result.error = compare(run, temporary.path());
    if (result.error && options.dtype == DType::f32) {
        const auto& [tokens, apart, largest] = *result.error;
        GPTRAIN_CHECK(apart <= fp32_tolerance * largest, "logits differ by ", apart, " of ",
                      largest);
    }
    sync_folder(temporary.path());
    rename_path(temporary.path(), options.output);
    sync_folder(options.output.parent_path());
    return result;
}

}  // namespace gptrain
