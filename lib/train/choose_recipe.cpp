#include "train/choose_recipe.h"

#include <optional>

#include "base/log.h"

namespace gptrain {
namespace {

bool is_open(const PrecisionSpec& precision) {
    return !precision.fp8_recipe && precision.compute == Precision::fp8;
}

/// The recipe of the run that is resumed, or of a fresh start.
Fp8Recipe recipe_of(const RunSpec& spec, const ResumeChoice& resume) {
    const std::optional<RunSpec> saved = resumed_spec(spec, resume);
    const bool blocks = saved && saved->precision.compute == Precision::fp8 &&
                        saved->precision.fp8_recipe == Fp8Recipe::block;
    if (blocks) print("precision.fp8_recipe: block (auto): as in the checkpoint");
    return blocks ? Fp8Recipe::block : Fp8Recipe::tensor;
}

}  // namespace

void choose_recipe(RunSpec& spec, const ResumeChoice& resume) {
    if (is_open(spec.precision)) spec.precision.fp8_recipe = recipe_of(spec, resume);
}

void choose_recipe(RunSpec& spec, const ResumeChoice& resume, const MpiSession& ranks) {
    if (!is_open(spec.precision)) return;
    Fp8Recipe recipe = Fp8Recipe::tensor;
    ranks.run_on_first([&] { recipe = recipe_of(spec, resume); });
    const bool blocks = ranks.max(recipe == Fp8Recipe::block ? 1 : 0) > 0;
    spec.precision.fp8_recipe = blocks ? Fp8Recipe::block : Fp8Recipe::tensor;
}

}  // namespace gptrain
