#include "interop/peft_prompt.h"

#include <algorithm>

#include "interop/hf_classes.h"

namespace gptrain {
namespace {

constexpr int encoder_layers = 3;

/// x W^T + b for rows x [P, I], with W [O, I].
std::vector<float> linear(const std::vector<float>& x, const std::vector<float>& weight,
                          const std::vector<float>& bias) {
    const std::size_t outputs = bias.size();
    const std::size_t inputs = weight.size() / outputs;
    std::vector<float> y;
    y.reserve(x.size() / inputs * outputs);
    for (auto row = x.begin(); row != x.end(); row += static_cast<std::ptrdiff_t>(inputs)) {
        for (std::size_t o = 0; o < outputs; ++o) {
            double sum = bias[o];
            for (std::size_t i = 0; i < inputs; ++i)
                sum += double{row[static_cast<std::ptrdiff_t>(i)]} * weight[o * inputs + i];
            y.push_back(static_cast<float>(sum));
        }
    }
    return y;
}

/// As model/soft_prompt.h has it.
std::vector<float> encode(std::vector<float> x, const ModelShape& model,
                          const WeightReader& weights) {
    const std::int64_t inner = model.prompt->encoder_hidden;
    for (int i = 0; i < encoder_layers; ++i) {
        const std::string name = text("prompt.encoder.", i);
        const std::int64_t inputs = i == 0 ? model.hidden : inner;
        const std::int64_t outputs = i + 1 == encoder_layers ? model.hidden : inner;
        if (i > 0)
            std::transform(x.begin(), x.end(), x.begin(),
                           [](float u) { return std::max(u, 0.0F); });
        x = linear(x, read_all(weights, Shard::whole(name + ".weight", {outputs, inputs})),
                   read_all(weights, Shard::whole(name + ".bias", {outputs})));
    }
    return x;
}

}  // namespace

PeftTensor peft_prompt(const ModelShape& model, const WeightReader& weights) {
    hf_class_of(without_adapter(model));
    const Shape shape = {model.prompt->tokens, model.hidden};
    std::vector<float> table = read_all(weights, Shard::whole("prompt.weight", shape));
    if (model.prompt->encoder_hidden > 0) table = encode(std::move(table), model, weights);
    return {"prompt_embeddings", shape, std::move(table)};
}

Json peft_prompt_config(const ModelShape& model, const std::string& adapted_path) {
    const bool encodes = model.prompt->encoder_hidden > 0;
    Json config = {
        {"peft_type", encodes ? "P_TUNING" : "PROMPT_TUNING"},
        {"task_type", "CAUSAL_LM"},
        {"base_model_name_or_path", adapted_path.empty() ? Json(nullptr) : Json(adapted_path)},
        {"num_virtual_tokens", model.prompt->tokens},
        {"token_dim", model.hidden},
        {"num_transformer_submodules", 1},
        {"num_attention_heads", model.heads},
        {"num_layers", model.layers},
        {"inference_mode", true}};
    if (encodes) {
        config["encoder_reparameterization_type"] = "MLP";
        config["encoder_hidden_size"] = model.prompt->encoder_hidden;
        config["encoder_num_layers"] = 2;
        config["encoder_dropout"] = 0.0;
    } else {
        config["prompt_tuning_init"] = "RANDOM";
        config["prompt_tuning_init_text"] = nullptr;
        config["tokenizer_name_or_path"] = nullptr;
    }
    return config;
}

}  // namespace gptrain
