#include "train/choose_resets.h"

#include <optional>
#include <system_error>
#include <variant>

#include "base/error.h"
#include "base/log.h"
#include "data/document_resets.h"
#include "metrics/run_directory.h"

namespace gptrain {
namespace {

DocumentResets fresh_resets(const RunSpec& spec) {
    if (std::holds_alternative<MlmSpec>(spec.objective)) return {};
    return automatic_resets(spec.data);
}

/// The value of the run that is resumed; empty for a fresh start.
std::optional<bool> kept_resets(const RunSpec& spec, const ResumeChoice& resume) {
    const RunPaths paths = {spec.output_dir};
    std::optional<RunSpec> saved = saved_spec(resume, paths.checkpoints());
    std::error_code missing;
    const bool copies = resume.kind == ResumeChoice::Kind::automatic &&
                        (spec.checkpoint.local || spec.checkpoint.memory);
    if (!saved && copies && std::filesystem::exists(paths.spec(), missing)) {
        try {
            saved = load_run_spec(paths.spec());
        } catch (const Error&) {  // the file is for people: a run does not depend on it
        }
    }
    if (!saved) return std::nullopt;
    return saved->data.reset_at_eod.value_or(false);
}

void print_choice(const DocumentResets& chosen) {
    if (chosen.reason.empty()) return;
    print("data.reset_at_eod: ", chosen.reset ? "true" : "false", " (auto): ", chosen.reason);
}

}  // namespace

void choose_resets(RunSpec& spec) {
    if (spec.data.reset_at_eod) return;
    const DocumentResets chosen = fresh_resets(spec);
    print_choice(chosen);
    spec.data.reset_at_eod = chosen.reset;
}

void choose_resets(RunSpec& spec, const ResumeChoice& resume, const MpiSession& ranks) {
    if (spec.data.reset_at_eod) return;
    bool reset = false;
    ranks.run_on_first([&] {
        DocumentResets chosen = fresh_resets(spec);
        const std::optional<bool> kept = kept_resets(spec, resume);
        if (kept && *kept != chosen.reset) chosen = {*kept, "as in the checkpoint"};
        print_choice(chosen);
        reset = chosen.reset;
    });
    spec.data.reset_at_eod = ranks.max(reset ? 1 : 0) > 0;
}

}  // namespace gptrain
