#include "spec/run_plan.h"

#include <algorithm>
#include <cmath>

#include "base/checked.h"

namespace gptrain {

bool ModelShape::has_window(std::int64_t layer) const {
    return sliding_window &&
           !std::binary_search(full_attention_layers.begin(), full_attention_layers.end(), layer);
}

std::int64_t ModelShape::rotary_dims() const {
    return std::llround(rotary_fraction * static_cast<double>(head_dim));
}

bool ModelShape::rotates(std::int64_t layer) const {
    return position_embedding == PositionEmbedding::rope &&
           !std::binary_search(unrotated_layers.begin(), unrotated_layers.end(), layer);
}

double ModelShape::rope_theta_of(std::int64_t layer) const {
    return has_window(layer) ? window_rope_theta.value_or(rope_theta) : rope_theta;
}

std::optional<RopeScaling> ModelShape::rope_scaling_of(std::int64_t layer) const {
    return has_window(layer) && window_rope_theta ? std::nullopt : rope_scaling;
}

bool Lora::adapts(LinearName layer) const {
    return std::find(targets.begin(), targets.end(), layer) != targets.end();
}

std::vector<LayerKind> layer_kinds(const ModelShape& model) {
    const std::int64_t with_experts = model.expert_layers(model.layers);
    std::vector<LayerKind> kinds;
    for (const bool experts : {false, true}) {
        const std::int64_t count = experts ? with_experts : model.layers - with_experts;
        if (count == 0) continue;
        LayerKind kind = {.experts = experts};
        while (model.has_experts(kind.first) != experts)
            ++kind.first;
        kind.share = static_cast<double>(count) / static_cast<double>(model.layers);
        kinds.push_back(kind);
    }
    return kinds;
}

ModelShape without_adapter(ModelShape model) {
    model.lora.reset();
    model.prompt.reset();
    return model;
}

std::int64_t dealt_microbatches(std::int64_t microbatches, std::int64_t data_ranks,
                                std::int64_t data_rank) {
    return microbatches / data_ranks + (data_rank < microbatches % data_ranks ? 1 : 0);
}

std::int64_t RunPlan::microbatches(std::int64_t global_batch_size, std::int64_t data_rank) const {
    const std::int64_t like = equal_counts() ? 0 : data_rank;
    return dealt_microbatches(div_exact(global_batch_size, micro_batch_size), mesh.data, like);
}

}  // namespace gptrain
