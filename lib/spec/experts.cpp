#include <algorithm>

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

std::int64_t ModelVariant::expert_layers(std::int64_t layers) const {
    std::int64_t count = 0;
    for (std::int64_t layer = 0; experts && layer < layers; ++layer)
        count += has_experts(layer) ? 1 : 0;
    return count;
}

}  // namespace gptrain
