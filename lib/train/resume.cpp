#include "train/resume.h"

#include <array>
#include <charconv>

#include "base/crc32c.h"
#include "checkpoint/folder.h"

namespace gptrain {
namespace {

JsonReader state_reader(const CheckpointMeta& meta) {
    return JsonReader(meta.state, text("checkpoint of step ", meta.step, ": state"));
}

bool is_checkpoint(const std::filesystem::path& folder) {
    return std::filesystem::exists(folder / "manifest.json");
}

/// The folder of checkpoints that is meant by a folder that is no checkpoint.
std::filesystem::path checkpoints_of(const std::filesystem::path& folder) {
    const std::filesystem::path inside = folder / "checkpoints";
    return std::filesystem::is_directory(inside) ? inside : folder;
}

[[noreturn]] void fail_nothing_there(const std::filesystem::path& folder) {
    fail(ExitCode::usage, folder.string(),
         ": no checkpoint there; give a checkpoint (step-...) or an output directory");
}

std::vector<std::filesystem::path> paths_in(const std::filesystem::path& checkpoints) {
    std::vector<std::filesystem::path> paths;
    for (const CheckpointFolder& checkpoint : list_checkpoints(checkpoints))
        paths.push_back(checkpoint.path);
    return paths;
}

}  // namespace

ValidCheckpoint open_checkpoint(const std::filesystem::path& folder) {
    if (is_checkpoint(folder)) return {folder, verify_checkpoint(folder, VerifyDepth::everything)};
    auto newest = newest_valid_checkpoint(checkpoints_of(folder));
    if (!newest) fail_nothing_there(folder);
    return *std::move(newest);
}

std::vector<std::filesystem::path> start_candidates(const ResumeChoice& choice,
                                                    const std::filesystem::path& checkpoints) {
    if (choice.kind == ResumeChoice::Kind::automatic) return paths_in(checkpoints);
    if (choice.kind == ResumeChoice::Kind::from) {
        if (is_checkpoint(choice.folder)) return {choice.folder};
        const auto paths = paths_in(checkpoints_of(choice.folder));
        if (paths.empty()) fail_nothing_there(choice.folder);
        return paths;
    }
    if (!list_checkpoints(checkpoints).empty()) {
        fail(
            ExitCode::usage, checkpoints.string(),
            ": holds checkpoints, and --resume never was given; choose another output_dir or leave "
            "--resume out");
    }
    return {};
}

Json saved_state(const StepState& state, const std::string& spec_yaml) {
    return {{"loss_scale", state.loss_scale},
            {"clean_steps", state.clean_steps},
            {"updates", state.updates},
            {"skipped_steps", state.skipped_steps},
            {"skipped_in_a_row", state.skipped_in_a_row},
            {"spec", spec_yaml}};
}

StepState carried_state(const CheckpointMeta& meta) {
    const JsonReader reader = state_reader(meta);
    StepState state{};
    state.loss_scale = reader.number("loss_scale");
    state.clean_steps = reader.integer("clean_steps");
    state.updates = reader.integer("updates");
    state.skipped_steps = reader.integer("skipped_steps");
    state.skipped_in_a_row = reader.integer("skipped_in_a_row");
    return state;
}

std::string saved_spec(const CheckpointMeta& meta) {
    return state_reader(meta).string("spec");
}

std::int64_t saved_num_samples(const CheckpointMeta& meta) {
    const std::string source = text("checkpoint of step ", meta.step);
    const JsonReader identity(meta.identity, source + ": identity");
    return JsonReader(identity.object("data"), source + ": identity.data").integer("num_samples");
}

std::string spec_hash(const std::string& spec_yaml) {
    std::array<char, 8> digits;
    digits.fill('0');
    std::array<char, 8> shortest{};
    const auto end = std::to_chars(shortest.data(), shortest.data() + shortest.size(),
                                   crc32c(spec_yaml.data(), spec_yaml.size()), 16)
                         .ptr;
    const auto length = static_cast<std::size_t>(end - shortest.data());
    std::copy(shortest.data(), end, digits.data() + digits.size() - length);
    return std::string(digits.data(), digits.size());
}

}  // namespace gptrain
