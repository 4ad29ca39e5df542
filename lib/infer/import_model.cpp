#include "infer/import_model.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "base/crc32c.h"
#include "checkpoint/folder.h"
#include "checkpoint/write_checkpoint.h"
#include "infer/run_tokenizer.h"
#include "interop/hf_folder.h"
#include "spec/make_plan.h"
#include "spec/model_cost.h"
#include "spec/spec_json.h"
#include "stored/identity.h"
#include "stored/interval_loss.h"
#include "stored/loss_spikes.h"
#include "stored/saved_run.h"
#include "tokenizer/tokenizer.h"

namespace gptrain {
namespace {

constexpr std::int64_t max_blocks = 16;

/// Reads the tensors from the folder, a few blocks at a time.
BlockSource blocks_of(const HfFolder& folder, const std::vector<Shard>& tensors) {
    constexpr std::int64_t width = size_of(DType::f32);
    auto buffer = std::make_shared<std::vector<float>>(max_blocks * checkpoint_block_bytes / width);
    return [&, buffer](std::size_t index, std::int64_t offset, std::int64_t bytes) {
        Shard part = tensors[index];
        const std::int64_t count = std::min(bytes / width, std::ssize(*buffer));
        part.flat_begin = offset / width;
        part.flat_end = part.flat_begin + count;
        const auto values = std::span(*buffer).first(static_cast<std::size_t>(count));
        folder.read(part, values);
        return std::as_bytes(values);
    };
}

/// Files to keep as they came.
std::vector<NamedFile> kept_files(const HfFolder& folder) {
    std::vector<NamedFile> files;
    const auto keep = [&](std::string_view name) {
        const std::filesystem::path path = folder.path() / name;
        std::error_code ignored;
        if (!std::filesystem::exists(path, ignored)) return false;
        files.push_back({std::string(name), read_file(path, max_hf_file_bytes)});
        return true;
    };
    for (const std::string_view name : shared_tokenizer_names)
        keep(name);
    if (keep(hf_generation_name)) return files;
    const SpecialIds& ids = folder.config().ids;
    files.push_back({std::string(hf_generation_name), generation_config(ids)});
    return files;
}

/// Adds the tokenizer under the name that a checkpoint has for it, in place of a kept file of that
/// name which cannot be used, and returns its fingerprint.
std::string add_tokenizer(const FolderTokenizer& own, std::vector<NamedFile>& files) {
    if (!own.fault.empty()) return "";
    const std::string_view name = tokenizer_file_name(own.bytes);
    std::erase_if(files, [&](const auto& file) { return file.name == name; });
    files.push_back({std::string(name), own.bytes});
    return text(crc32c(own.bytes.data(), own.bytes.size()));
}

CheckpointMeta meta_of(const RunSpec& spec, const RunPlan& plan, const std::string& tokenizer) {
    const std::string yaml = to_yaml(spec);
    CheckpointMeta meta;
    meta.spec_hash = spec_hash(yaml);
    meta.identity =
        run_identity(spec, plan, TrainingData{}, {.tokenizer = tokenizer, .adapted = {}});
    meta.state = to_json(SavedRun{.state = initial_step_state(1),
                                  .spec_yaml = yaml,
                                  .goodput = {},
                                  .losses = LossSpikes(std::nullopt).to_json(),
                                  .interval_loss = IntervalLoss(spec.logging.interval).to_json(),
                                  .weights_only = true});
    return meta;
}

}  // namespace

ImportedModel import_model(const std::filesystem::path& from, const std::filesystem::path& to) {
    require_new(to, "--output");
    remove_abandoned(to);
    if (require_path(from, ExitCode::usage, "folder") != std::filesystem::file_type::directory)
        fail(ExitCode::usage, from.string(), ": is a file, not a folder with config.json");
    const HfFolder folder(from);
    warn_of_unused_tensors(folder);
    const RunSpec& spec = folder.spec();
    const RunPlan plan = make_plan(spec, {.world_size = 1, .cuda = false, .dry_run = true});
    std::vector<NamedFile> kept = kept_files(folder);
    const FolderTokenizer own = folder_tokenizer(folder);
    const std::string tokenizer = add_tokenizer(own, kept);
    std::vector<WholeFile> files;
    for (const auto& [name, contents] : kept)
        files.push_back({name, contents});
    const std::vector<Shard> tensors = whole_tensors(folder.shape());
    const std::int64_t bytes =
        write_checkpoint(to, meta_of(spec, plan, tokenizer),
                         {.tensors = tensors,
                          .blocks = blocks_of(folder, tensors),
                          .files = files,
                          .model = to_json(effective_spec(spec, plan)).at("model")});
    return {
        .parameters = parameter_count(plan.model), .bytes = bytes, .tokenizer_fault = own.fault};
}

}  // namespace gptrain
