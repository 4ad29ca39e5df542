#include "train/resume.h"

#include <array>
#include <charconv>

#include "base/crc32c.h"
#include "checkpoint/folder.h"

namespace gptrain {
namespace {

JsonReader state_reader(const Manifest& manifest) {
    return JsonReader(manifest.meta.state,
                      text("checkpoint of step ", manifest.meta.step, ": state"));
}

}  // namespace

ValidCheckpoint open_checkpoint(const std::filesystem::path& folder) {
    if (std::filesystem::exists(folder / "manifest.json")) {
        return {folder, verify_checkpoint(folder, VerifyDepth::everything)};
    }
    const std::filesystem::path inside = folder / "checkpoints";
    const bool is_output_dir = std::filesystem::is_directory(inside);
    auto newest = newest_valid_checkpoint(is_output_dir ? inside : folder);
    if (!newest) {
        fail(ExitCode::usage, folder.string(),
             ": no checkpoint there; give a checkpoint (step-...) or an output directory");
    }
    return *std::move(newest);
}

std::optional<ValidCheckpoint> find_start(const ResumeChoice& choice,
                                          const std::filesystem::path& checkpoints) {
    switch (choice.kind) {
        case ResumeChoice::Kind::automatic: return newest_valid_checkpoint(checkpoints);
        case ResumeChoice::Kind::from: return open_checkpoint(choice.folder);
        case ResumeChoice::Kind::never: break;
    }
    if (!list_checkpoints(checkpoints).empty()) {
        fail(
            ExitCode::usage, checkpoints.string(),
            ": holds checkpoints, and --resume never was given; choose another output_dir or leave "
            "--resume out");
    }
    return std::nullopt;
}

Json saved_state(const StepState& state, const std::string& spec_yaml,
                 const Goodput::Record& goodput) {
    return {{"loss_scale", state.loss_scale},
            {"clean_steps", state.clean_steps},
            {"updates", state.updates},
            {"skipped_steps", state.skipped_steps},
            {"skipped_in_a_row", state.skipped_in_a_row},
            {"first_start", goodput.first_start},
            {"goodput", to_json(goodput.spent)},
            {"spec", spec_yaml}};
}

StepState carried_state(const Manifest& manifest) {
    const JsonReader reader = state_reader(manifest);
    StepState state{};
    state.loss_scale = reader.number("loss_scale");
    state.clean_steps = reader.integer("clean_steps");
    state.updates = reader.integer("updates");
    state.skipped_steps = reader.integer("skipped_steps");
    state.skipped_in_a_row = reader.integer("skipped_in_a_row");
    return state;
}

Goodput::Record saved_goodput(const Manifest& manifest) {
    const JsonReader reader = state_reader(manifest);
    return {.spent = time_spent(reader.object("goodput"),
                                text("checkpoint of step ", manifest.meta.step, ": goodput")),
            .first_start = reader.number("first_start")};
}

std::string saved_spec(const Manifest& manifest) {
    return state_reader(manifest).string("spec");
}

std::int64_t saved_num_samples(const ValidCheckpoint& checkpoint) {
    const std::string source = (checkpoint.folder / "manifest.json").string();
    const JsonReader identity(checkpoint.manifest.meta.identity, source + ": identity");
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
