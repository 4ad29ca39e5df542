#include "interop/foreign_tensors.h"

#include <algorithm>

#include "base/checked.h"
#include "model/layout.h"

namespace gptrain {
namespace {

/// What a class calls the parts of a block, relative to the block, without ".weight" and ".bias".
struct BlockNames {
    std::string_view block;  ///< before the number of the layer
    std::string_view ln_1, ln_2, q, k, v, attn_proj, fc, gate, mlp_proj;
};

constexpr BlockNames gpt2_names = {"transformer.h.", "ln_1",     "ln_2", "attn.c_attn", "", "",
                                   "attn.c_proj",    "mlp.c_fc", "",     "mlp.c_proj"};
constexpr BlockNames llama_names = {
    "model.layers.",    "input_layernorm",  "post_attention_layernorm", "self_attn.q_proj",
    "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",         "mlp.up_proj",
    "mlp.gate_proj",    "mlp.down_proj"};
constexpr BlockNames starcoder2_names = {
    "model.layers.",    "input_layernorm",  "post_attention_layernorm",
    "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj",
    "self_attn.o_proj", "mlp.c_fc",         "",
    "mlp.c_proj"};

constexpr const BlockNames& block_names_of(HfClass hf_class) {
    switch (hf_class) {
        case HfClass::gpt2: return gpt2_names;
        case HfClass::starcoder2: return starcoder2_names;
        default: return llama_names;
    }
}

/// Lists the tensors of a class for a model.
class TensorList {
public:
    TensorList(const ModelShape& model, HfClass hf_class)
        : model_(model),
          names_(block_names_of(hf_class)),
          is_gpt2_(hf_class == HfClass::gpt2),
          norm_biases_(model.normalization == Normalization::layernorm) {}

    std::vector<ForeignTensor> list() {
        const bool learned = model_.position_embedding == PositionEmbedding::learned;
        add(is_gpt2_ ? "transformer.wte.weight" : "model.embed_tokens.weight",
            {model_.vocab, model_.hidden}, {"wte.weight"});
        if (learned) {
            add("transformer.wpe.weight", {model_.max_positions, model_.hidden}, {"wpe.weight"});
        }
        for (std::int64_t i = 0; i < model_.layers; ++i)
            block(text(names_.block, i, "."), text("h.", i, "."));
        norm(is_gpt2_ ? "transformer.ln_f" : "model.norm", "ln_f");
        if (!model_.tie_embeddings)
            add("lm_head.weight", {model_.vocab, model_.hidden}, {"head.weight"});
        return std::move(tensors_);
    }

private:
    void add(std::string name, const Shape& shape, std::vector<std::string> parts,
             bool transposed = false) {
        tensors_.push_back({std::move(name), shape, std::move(parts), transposed});
    }

    void norm(const std::string& theirs, const std::string& ours) {
        add(theirs + ".weight", {model_.hidden}, {ours + ".weight"});
        if (!norm_biases_) return;
        add(theirs + ".bias", {model_.hidden}, with_biases(ours + ".bias"));
    }

    /// The tensor, or nothing in a model without biases.
    std::vector<std::string> with_biases(const std::string& name) const {
        return model_.bias ? std::vector{name} : std::vector<std::string>{};
    }

    /// A linear layer; `ours` are stacked.
    void linear(const std::string& theirs, std::int64_t outputs, std::int64_t inputs,
                const std::vector<std::string>& ours, bool bias) {
        std::vector<std::string> weights;
        std::vector<std::string> biases;
        for (const std::string& name : ours) {
            weights.push_back(name + ".weight");
            if (bias) biases.push_back(name + ".bias");
        }
        const Shape shape = is_gpt2_ ? Shape{inputs, outputs} : Shape{outputs, inputs};
        add(theirs + ".weight", shape, std::move(weights), is_gpt2_);
        if (is_gpt2_ || bias) add(theirs + ".bias", {outputs}, std::move(biases));
    }

    void block(const std::string& theirs, const std::string& ours) {
        const std::int64_t q_rows = model_.heads * model_.head_dim;
        const std::int64_t kv_rows = model_.groups * model_.head_dim;
        const auto at = [&](std::string_view name) { return text(theirs, name); };
        norm(at(names_.ln_1), ours + "ln_1");
        const std::string q = ours + "attn.q";
        const std::string k = ours + "attn.k";
        const std::string v = ours + "attn.v";
        if (is_gpt2_) {
            linear(at(names_.q), q_rows + 2 * kv_rows, model_.hidden, {q, k, v}, model_.qkv_bias);
        } else {
            linear(at(names_.q), q_rows, model_.hidden, {q}, model_.qkv_bias);
            linear(at(names_.k), kv_rows, model_.hidden, {k}, model_.qkv_bias);
            linear(at(names_.v), kv_rows, model_.hidden, {v}, model_.qkv_bias);
        }
        if (model_.qk_norm) {
            add(at("self_attn.q_norm.weight"), {model_.head_dim}, {ours + "attn.q_norm.weight"});
            add(at("self_attn.k_norm.weight"), {model_.head_dim}, {ours + "attn.k_norm.weight"});
        }
        linear(at(names_.attn_proj), model_.hidden, q_rows, {ours + "attn.proj"}, model_.bias);
        norm(at(names_.ln_2), ours + "ln_2");
        linear(at(names_.fc), model_.ffn, model_.hidden, {ours + "mlp.fc"}, model_.bias);
        if (model_.activation == Activation::swiglu)
            linear(at(names_.gate), model_.ffn, model_.hidden, {ours + "mlp.gate"}, model_.bias);
        linear(at(names_.mlp_proj), model_.hidden, model_.ffn, {ours + "mlp.proj"}, model_.bias);
    }

    const ModelShape& model_;
    const BlockNames& names_;
    bool is_gpt2_;
    bool norm_biases_;
    std::vector<ForeignTensor> tensors_;
};

std::vector<float> transposed(std::span<const float> from, std::int64_t rows,
                              std::int64_t columns) {
    std::vector<float> to(from.size());
    for (std::int64_t row = 0; row < rows; ++row)
        for (std::int64_t column = 0; column < columns; ++column)
            to[static_cast<std::size_t>(column * rows + row)] =
                from[static_cast<std::size_t>(row * columns + column)];
    return to;
}

}  // namespace

std::vector<Shard> model_tensors(const ModelShape& model) {
    const LayoutRequest whole = {
        .model = model,
        .chunks = {
            {.first_layer = 0, .num_layers = model.layers, .embedding = true, .head = true}}};
    std::vector<Shard> tensors;
    for (const Parameter& parameter : make_layout(whole).parameters)
        tensors.push_back(parameter.shard);
    return tensors;
}

std::vector<ForeignTensor> hf_tensors(const ModelShape& model, HfClass hf_class) {
    return TensorList(model, hf_class).list();
}

void read_foreign(const ForeignTensor& tensor, const std::map<std::string, Shape>& shapes,
                  const WeightReader& ours, std::vector<float>& to) {
    to.assign(static_cast<std::size_t>(tensor.shape.elements()), 0.0F);
    std::size_t filled = 0;
    for (const std::string& name : tensor.parts) {
        const Shard whole = Shard::whole(name, shapes.at(name));
        const auto count = static_cast<std::size_t>(whole.elements());
        ours(whole, std::span(to).subspan(filled, count));
        filled += count;
    }
    GPTRAIN_CHECK(tensor.parts.empty() || filled == to.size(), tensor.name);
    if (tensor.transposed && !tensor.parts.empty())
        to = transposed(to, tensor.shape[1], tensor.shape[0]);
}

}  // namespace gptrain
