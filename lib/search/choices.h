// The settings of a run spec that the search varies.
#pragma once

#include <cstdint>
#include <optional>

#include "spec/run_spec.h"

namespace gptrain {

/// One candidate. `parallel.data` is always auto: the remaining ranks; `parallel.overlap_tensor`
/// never is.
struct Choices {
    ParallelSpec parallel;
    std::int64_t micro_batch_size = 1;
    std::int64_t global_batch_size = 1;
    std::optional<Precision> compute;
    std::optional<Fp8Recipe> fp8_recipe;
    Precision grad_reduce = Precision::fp32;
    Recompute recompute = Recompute::selective;
    OffloadSpec offload;

    /// True if its schedule defers weight gradients.
    bool defers_weights() const;
    bool operator==(const Choices&) const = default;
};

/// The spec's own. Its global batch size must be given.
Choices choices_of(const RunSpec& spec);

/// The spec with its settings replaced by these. If the global batch size changes, the numbers of
/// steps (of the run, of warm-up and of decays) are scaled so that their numbers of samples stay
/// the same.
RunSpec with_choices(const RunSpec& spec, const Choices& choices);

}  // namespace gptrain
