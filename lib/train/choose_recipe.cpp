#include "train/choose_recipe.h"

#include <optional>

#include "base/log.h"

namespace gptrain {

void choose_recipe(RunSpec& spec, const ResumeChoice& resume, const MpiSession& ranks) {
    PrecisionSpec& precision = spec.precision;
    if (precision.fp8_recipe || precision.compute != Precision::fp8) return;
    bool blocks = false;
    ranks.run_on_first([&] {
        const std::optional<RunSpec> saved = resumed_spec(spec, resume);
        blocks = saved && saved->precision.compute == Precision::fp8 &&
                 saved->precision.fp8_recipe == Fp8Recipe::block;
        if (blocks) print("precision.fp8_recipe: block (auto): as in the checkpoint");
    });
    precision.fp8_recipe = ranks.max(blocks ? 1 : 0) > 0 ? Fp8Recipe::block : Fp8Recipe::tensor;
}

}  // namespace gptrain
