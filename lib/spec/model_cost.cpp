#include "spec/model_cost.h"

#include <array>
#include <cmath>
#include <optional>

namespace gptrain {
namespace {

ParameterCounts count(const std::vector<TensorGroup>& groups, const ParameterRules& rules) {
    ParameterCounts counts;
    for (const TensorGroup& group : groups) {
        if (group.balance()) continue;
        const bool trained = rules.trains(group.tensors.front().name);  // groups are frozen whole
        for (const ModelTensor& tensor : group.tensors) {
            const std::int64_t elements = tensor.elements();
            const double active = tensor.active * static_cast<double>(elements);
            counts.all += elements;
            counts.active += active;
            if (trained) {
                counts.trained += active;
            } else {
                counts.frozen += elements;
            }
        }
    }
    return counts;
}

bool is_outside_gemms(const TensorGroup& group, const ModelShape& model) {
    if (group.tensors.front().columns == 0) return true;
    const bool is_embedding = group.name == "wte.weight" || group.name == "wpe.weight";
    return is_embedding && group.name != head_matrix(model);
}

}  // namespace

std::vector<ParameterCounts> layer_parameters(const RunPlan& plan) {
    // Layers of a kind differ by their names alone, which matter to patterns.
    const bool alike = plan.parameters.frozen.empty();
    std::array<std::optional<ParameterCounts>, 2> of_kind;  // without experts, with them
    std::vector<ParameterCounts> layers;
    for (std::int64_t layer = 0; layer < plan.model.layers; ++layer) {
        std::optional<ParameterCounts>& known = of_kind[plan.model.has_experts(layer) ? 1 : 0];
        if (!alike || !known) known = count(layer_tensors(plan.model, {layer}), plan.parameters);
        layers.push_back(*known);
    }
    return layers;
}

std::int64_t parameter_count(const ModelShape& model) {
    return count(all_tensors(model), {}).all;
}

std::int64_t active_parameters(const ModelShape& model) {
    return std::llround(count(all_tensors(model), {}).active);
}

std::int64_t frozen_parameters(const RunPlan& plan) {
    return count(all_tensors(plan.model), plan.parameters).frozen;
}

double flops_per_token(const RunPlan& plan) {
    double flops = count(all_tensors(plan.model), plan.parameters).flops();
    for (std::int64_t layer = 0; layer < plan.model.layers; ++layer)
        flops += attention_flops_per_token(plan.model, layer, plan.seq_length);
    return flops;
}

double attention_flops_per_token(const ModelShape& model, std::int64_t layer,
                                 std::int64_t seq_length) {
    const auto real = [](std::int64_t n) { return static_cast<double>(n); };
    const bool windowed = model.has_window(layer) && *model.sliding_window < seq_length;
    const double window = real(windowed ? *model.sliding_window : seq_length);
    const double hidden = model.bidirectional ? 0 : window * window / real(seq_length);
    // Twice the mean number of keys that a token sees.
    const double seen = 2 * window - hidden;
    return 6 * real(model.heads) * real(model.head_dim) * seen;
}

double flops_outside_gemms(const RunPlan& plan) {
    std::vector<TensorGroup> groups = all_tensors(plan.model);
    std::erase_if(groups, [&](const auto& group) { return !is_outside_gemms(group, plan.model); });
    return count(groups, plan.parameters).flops();
}

double layer_flops(const ModelShape& model, const LayerKind& kind, std::int64_t seq_length) {
    // A layer more than the model has: with the window.
    return count(layer_tensors(model, {kind.first}), {}).flops() +
           attention_flops_per_token(model, model.layers, seq_length);
}

double head_flops(const ModelShape& model) {
    return 6 * static_cast<double>(model.vocab) * static_cast<double>(model.hidden);
}

double head_cost(const ModelShape& model, std::int64_t seq_length) {
    double flops = 0;
    for (const LayerKind& kind : layer_kinds(model))
        flops += kind.share * layer_flops(model, kind, seq_length);
    return head_flops(model) / flops;
}

}  // namespace gptrain
