#include <algorithm>
#include <cmath>

#include "base/checked.h"
#include "spec/run_spec.h"

namespace gptrain {

bool ExpertLayers::has(std::int64_t layer) const {
    if (!list.empty()) return std::find(list.begin(), list.end(), layer) != list.end();
    return layer >= first_dense && (layer + 1) % every == 0;
}

RouterRule ExpertsSpec::rule() const {
    return {.score = router.score,
            .normalize = router.normalize,
            .scale = router.scale,
            .groups = router.groups ? router.groups->count : 1,
            .kept_groups = router.groups ? router.groups->keep : 1};
}

std::int64_t ExpertsSpec::most_rows(std::int64_t tokens, std::int64_t ranks) const {
    return tokens * std::min(per_token, div_exact(count, ranks));
}

std::int64_t ExpertsSpec::message_rows(std::int64_t tokens, std::int64_t ranks) const {
    const double share = static_cast<double>(tokens * per_token) / static_cast<double>(ranks);
    const auto rows = static_cast<std::int64_t>(std::ceil(load * share));
    // A slice of one token always fits.
    return std::clamp(rows, most_rows(1, ranks), most_rows(tokens, ranks));
}

std::int64_t ExpertsSpec::most_slices(std::int64_t tokens, std::int64_t ranks) const {
    const std::int64_t fitting = message_rows(tokens, ranks) / most_rows(1, ranks);
    return div_ceil(tokens, fitting);
}

std::int64_t ModelVariant::expert_layers(std::int64_t layers) const {
    std::int64_t count = 0;
    for (std::int64_t layer = 0; experts && layer < layers; ++layer)
        count += has_experts(layer) ? 1 : 0;
    return count;
}

}  // namespace gptrain
