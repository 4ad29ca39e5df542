#include "interop/gguf_experts.h"

#include <string>
#include <utility>

#include "interop/gguf_architecture.h"
#include "spec/model_tensors.h"

namespace gptrain {
namespace {

/// llama.cpp's LLAMA_MAX_EXPERTS.
constexpr std::int64_t most_experts = 1024;
/// llama.cpp's number of sigmoid scores.
constexpr std::int64_t sigmoid_score = 2;

bool is_qwen(HfClass hf_class) {
    return hf_class == HfClass::qwen2_moe || hf_class == HfClass::qwen3_moe;
}

/// Lists the tensors of a layer.
class GgufExperts {
public:
    GgufExperts(const ModelShape& model, std::int64_t layer)
        : hidden_(model.hidden),
          experts_(*model.experts),
          theirs_(text("blk.", layer, ".")),
          ours_(BlockId{layer}.name + ".") {}

    std::vector<ForeignTensor> list(bool with_balance) {
        add("ffn_gate_inp.weight", {experts_.count, hidden_}, {{ours_ + "router.weight"}})
            .always_f32 = true;
        if (experts_.router.logit_bias)
            add("ffn_gate_inp.bias", {experts_.count}, {{ours_ + "router.bias"}});
        if (with_balance) balance();
        const std::int64_t width = experts_.ffn_hidden_size;
        experts("up", width, hidden_, "fc");
        experts("gate", width, hidden_, "gate");
        experts("down", hidden_, width, "proj");
        if (experts_.shared) shared();
        return std::move(tensors_);
    }

private:
    ForeignTensor& add(const std::string& name, const Shape& shape, std::vector<TensorPart> parts) {
        tensors_.push_back({theirs_ + name, shape, std::move(parts)});
        return tensors_.back();
    }

    /// The bias of the choice.
    void balance() {
        std::vector<TensorPart> parts;
        if (experts_.balance.bias_rate) parts.push_back({ours_ + "router.balance"});
        add("exp_probs_b.bias", {experts_.count}, std::move(parts));
    }
    void experts(std::string_view theirs, std::int64_t rows, std::int64_t columns,
                 std::string_view ours) {
        const auto parts = [&](std::string_view kind) {
            std::vector<TensorPart> list;
            for (std::int64_t e = 0; e < experts_.count; ++e)
                list.push_back({text(ours_, "experts.", ours, ".", kind), e, {.first = rows * e}});
            return list;
        };
        const std::string name = text("ffn_", theirs, "_exps");
        add(name + ".weight", {experts_.count, rows, columns}, parts("weight"));
        if (experts_.bias) add(name + ".bias", {experts_.count, rows}, parts("bias"));
    }
    void shared() {
        const std::int64_t width = experts_.shared->ffn_hidden_size;
        const auto matrix = [&](std::string_view theirs, const Shape& shape,
                                std::string_view ours) {
            add(text("ffn_", theirs, "_shexp.weight"), shape,
                {{text(ours_, "shared.", ours, ".weight")}});
        };
        matrix("up", {width, hidden_}, "fc");
        matrix("gate", {width, hidden_}, "gate");
        matrix("down", {hidden_, width}, "proj");
        if (!experts_.shared->gate) return;
        add("ffn_gate_inp_shexp.weight", {1, hidden_}, {{ours_ + "shared.router.weight"}})
            .always_f32 = true;
    }

    std::int64_t hidden_;
    const ExpertsSpec& experts_;
    std::string theirs_;
    std::string ours_;
    std::vector<ForeignTensor> tensors_;
};

}  // namespace

void check_gguf_experts(const ModelShape& model, HfClass hf_class) {
    const ExpertsSpec& experts = *model.experts;
    const auto none = [&](const auto&... what) {
        no_gguf_model(hf_class, what..., "; export with --format hf");
    };
    if (experts.count > most_experts)
        none("model.experts.count ", experts.count, ", at most ", most_experts);
    if (hf_class == HfClass::olmoe && experts.router.normalize)
        none("model.experts.router.normalize true");
    if (!is_qwen(hf_class)) return;
    if (model.expert_layers(model.layers) < model.layers)
        none("model.experts.layers that leave out a layer");
    // llama.cpp has the flag in its code, not in the file.
    if (experts.router.normalize != (hf_class == HfClass::qwen3_moe))
        none("model.experts.router.normalize ", experts.router.normalize);
}

std::vector<GgufSetting> gguf_expert_settings(const ModelShape& model, HfClass hf_class) {
    const ExpertsSpec& experts = *model.experts;
    std::vector<GgufSetting> settings = {{"expert_count", experts.count},
                                         {"expert_used_count", experts.per_token}};
    const auto add = [&](std::string_view name, const auto& value) {
        settings.emplace_back(name, value);
    };
    if (hf_class == HfClass::mixtral) return settings;
    add("expert_feed_forward_length", experts.ffn_hidden_size);
    if (hf_class == HfClass::qwen2_moe)
        add("expert_shared_feed_forward_length", experts.shared->ffn_hidden_size);
    if (hf_class != HfClass::glm4_moe) return settings;
    const RouterRule rule = experts.rule();
    add("expert_shared_count", experts.shared->ffn_hidden_size / experts.ffn_hidden_size);
    add("leading_dense_block_count", model.layers - model.expert_layers(model.layers));
    add("expert_gating_func", sigmoid_score);
    add("expert_weights_norm", rule.normalize);
    add("expert_weights_scale", rule.scale);
    // llama.cpp refuses to keep all groups, which is the same as to have none.
    if (rule.kept_groups == rule.groups) return settings;
    add("expert_group_count", rule.groups);
    add("expert_group_used_count", rule.kept_groups);
    return settings;
}

std::vector<ForeignTensor> gguf_expert_tensors(const ModelShape& model, HfClass hf_class,
                                               std::int64_t layer) {
    return GgufExperts(model, layer).list(hf_class == HfClass::glm4_moe);
}

}  // namespace gptrain
