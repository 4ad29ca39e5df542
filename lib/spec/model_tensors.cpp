#include "spec/model_tensors.h"

#include <algorithm>

#include "base/text.h"
#include "spec/plan_checks.h"

namespace gptrain {
namespace {

/// Appends the groups of a part of the model.
class GroupList {
public:
    explicit GroupList(const ModelShape& model) : model_(model) {}

    void matrix(const std::string& name, std::int64_t rows) {
        groups_.push_back({{name, rows, model_.hidden}});
    }
    void norm(const std::string& name) {
        groups_.push_back({{name + ".weight", model_.hidden}});
        if (model_.bias && model_.normalization == Normalization::layernorm)
            groups_.push_back({{name + ".bias", model_.hidden}});
    }
    void head_norm(const std::string& name) {
        groups_.push_back({{name + ".weight", model_.head_dim}});
    }
    /// A linear layer whose outputs are stacked.
    void linear(const std::vector<std::pair<std::string, std::int64_t>>& outputs,
                std::int64_t inputs, bool bias) {
        TensorGroup weights;
        TensorGroup biases;
        for (const auto& [name, rows] : outputs) {
            weights.push_back({name + ".weight", rows, inputs});
            biases.push_back({name + ".bias", rows});
        }
        groups_.push_back(std::move(weights));
        if (bias) groups_.push_back(std::move(biases));
    }
    std::vector<TensorGroup> take() { return std::move(groups_); }

private:
    const ModelShape& model_;
    std::vector<TensorGroup> groups_;
};

/// Calls visit(group) for all groups of the model.
void for_each_group(const ModelShape& model, const auto& visit) {
    for (const TensorGroup& group : embedding_tensors(model))
        visit(group);
    for (std::int64_t layer = 0; layer < model.layers; ++layer) {
        for (const TensorGroup& group : layer_tensors(model, layer))
            visit(group);
    }
    for (const TensorGroup& group : head_tensors(model))
        visit(group);
}

std::int64_t frozen_in(const ParameterRules& rules, const TensorGroup& group) {
    // Groups are frozen whole.
    if (rules.trains(group.front().name)) return 0;
    std::int64_t sum = 0;
    for (const TensorSize& tensor : group)
        sum += tensor.elements();
    return sum;
}

void check_whole(const ParameterRules& rules, const TensorGroup& group) {
    const bool trained = rules.trains(group.front().name);
    for (const TensorSize& tensor : group) {
        require(rules.trains(tensor.name) == trained,
                "training.frozen: ", trained ? tensor.name : group.front().name,
                " would be frozen, but not ", trained ? group.front().name : tensor.name,
                ", which the same GEMM reads; freeze both or neither");
    }
}

}  // namespace

std::vector<TensorGroup> layer_tensors(const ModelShape& model, std::int64_t layer) {
    const std::string at = text("h.", layer, ".");
    const std::int64_t q_rows = model.heads * model.head_dim;
    const std::int64_t kv_rows = model.groups * model.head_dim;
    GroupList list(model);
    list.norm(at + "ln_1");
    list.linear({{at + "attn.q", q_rows}, {at + "attn.k", kv_rows}, {at + "attn.v", kv_rows}},
                model.hidden, model.qkv_bias);
    if (model.qk_norm) {
        list.head_norm(at + "attn.q_norm");
        list.head_norm(at + "attn.k_norm");
    }
    list.linear({{at + "attn.proj", model.hidden}}, q_rows, model.bias);
    list.norm(at + "ln_2");
    std::vector<std::pair<std::string, std::int64_t>> inner = {{at + "mlp.fc", model.ffn}};
    if (gated(model.activation)) inner.emplace_back(at + "mlp.gate", model.ffn);
    list.linear(inner, model.hidden, model.bias);
    list.linear({{at + "mlp.proj", model.hidden}}, model.ffn, model.bias);
    return list.take();
}

std::vector<TensorGroup> embedding_tensors(const ModelShape& model) {
    GroupList list(model);
    list.matrix("wte.weight", model.vocab);
    if (model.position_embedding == PositionEmbedding::learned)
        list.matrix("wpe.weight", model.max_positions);
    return list.take();
}

std::vector<TensorGroup> head_tensors(const ModelShape& model) {
    GroupList list(model);
    list.norm("ln_f");
    if (!model.tie_embeddings) list.matrix("head.weight", model.vocab);
    return list.take();
}

std::string_view head_matrix(const ModelShape& model) {
    return model.tie_embeddings ? "wte.weight" : "head.weight";
}

std::int64_t frozen_in_layer(const RunPlan& plan, std::int64_t layer) {
    if (plan.parameters.frozen.empty()) return 0;
    std::int64_t sum = 0;
    for (const TensorGroup& group : layer_tensors(plan.model, layer))
        sum += frozen_in(plan.parameters, group);
    return sum;
}

std::int64_t frozen_parameters(const RunPlan& plan) {
    if (plan.parameters.frozen.empty()) return 0;
    std::int64_t sum = 0;
    for_each_group(plan.model,
                   [&](const TensorGroup& group) { sum += frozen_in(plan.parameters, group); });
    return sum;
}

double flops_per_token(const RunPlan& plan) {
    return flops_per_token(plan.model, plan.seq_length) -
           2 * static_cast<double>(frozen_parameters(plan));
}

void check_frozen(const RunPlan& plan) {
    const ParameterRules& rules = plan.parameters;
    if (rules.frozen.empty()) return;
    std::vector<bool> matched(rules.frozen.size());
    bool any_trained = false;
    for_each_group(plan.model, [&](const TensorGroup& group) {
        check_whole(rules, group);
        any_trained |= rules.trains(group.front().name);
        for (const TensorSize& tensor : group) {
            for (std::size_t i = 0; i < matched.size(); ++i)
                if (!matched[i]) matched[i] = name_matches(rules.frozen[i], tensor.name);
        }
    });
    const auto lost = std::find(matched.begin(), matched.end(), false) - matched.begin();
    require(lost == std::ssize(matched), "training.frozen: no tensor of the model matches '",
            lost < std::ssize(matched) ? rules.frozen[static_cast<std::size_t>(lost)] : "",
            "'; tensors are named such as wte.weight or h.0.attn.q.weight, and * stands for any "
            "text");
    require(any_trained, "training.frozen: leaves nothing to train; remove a pattern");
}

}  // namespace gptrain
