#include "train/choose_recipe.h"

#include <optional>

#include "base/log.h"

namespace gptrain {
namespace {

bool is_open(const PrecisionSpec& precision) {
    const bool whole = precision.fp8_recipe && precision.fp8_weight_gradients;
    return !whole && precision.compute == Precision::fp8;
}

/// Fills the gaps as in the run that is resumed, or as in a fresh start.
void fill(PrecisionSpec& precision, const std::optional<RunSpec>& resumed) {
    PrecisionSpec saved;
    if (resumed && resumed->precision.compute == Precision::fp8) saved = resumed->precision;
    const Fp8Recipe kept = saved.fp8_recipe.value_or(Fp8Recipe::tensor);
    const auto say = [](std::string_view key, std::string_view value) {
        print("precision.", key, ": ", value, " (auto): as in the checkpoint");
    };
    if (!precision.fp8_recipe) {
        precision.fp8_recipe = kept;
        if (kept != Fp8Recipe::tensor) say("fp8_recipe", name_of(kept));
    }
    if (precision.fp8_weight_gradients) return;
    const Precision usual = usual_weight_gradients(*precision.fp8_recipe);
    const bool same = precision.fp8_recipe == kept;
    const Precision chosen = same ? saved.fp8_weight_gradients.value_or(usual) : usual;
    precision.fp8_weight_gradients = chosen;
    if (chosen != usual) say("fp8_weight_gradients", name_of(chosen));
}

}  // namespace

void choose_recipe(RunSpec& spec, const ResumeChoice& resume) {
    if (is_open(spec.precision)) fill(spec.precision, resumed_spec(spec, resume));
}

void choose_recipe(RunSpec& spec, const ResumeChoice& resume, const MpiSession& ranks) {
    PrecisionSpec& precision = spec.precision;
    if (!is_open(precision)) return;
    ranks.run_on_first([&] { fill(precision, resumed_spec(spec, resume)); });
    const bool blocks = ranks.max(precision.fp8_recipe == Fp8Recipe::block ? 1 : 0) > 0;
    const bool fp8 = ranks.max(precision.fp8_weight_gradients == Precision::fp8 ? 1 : 0) > 0;
    precision.fp8_recipe = blocks ? Fp8Recipe::block : Fp8Recipe::tensor;
    precision.fp8_weight_gradients = fp8 ? Precision::fp8 : Precision::bf16;
}

}  // namespace gptrain
