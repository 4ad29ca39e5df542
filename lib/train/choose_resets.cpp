#include "train/choose_resets.h"

#include <optional>
#include <variant>

#include "base/log.h"
#include "data/document_resets.h"

namespace gptrain {
namespace {

DocumentResets fresh_resets(const RunSpec& spec) {
    if (std::holds_alternative<MlmSpec>(spec.objective)) return {};
    return automatic_resets(spec.data);
}

/// The value of the run that is resumed; empty for a fresh start.
std::optional<bool> kept_resets(const RunSpec& spec, const ResumeChoice& resume) {
    const std::optional<RunSpec> saved = resumed_spec(spec, resume);
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
