#include "interop/foreign_tensors.h"

#include <algorithm>

#include "base/checked.h"
#include "interop/gguf_experts.h"
#include "interop/hf_experts.h"
#include "model/layout.h"

namespace gptrain {
namespace {

/// The names of the tensors in another program, without ".weight" and ".bias", and how it stores
/// them.
struct TensorNames {
    std::string_view embedding = {}, positions = {};
    std::string_view block = {};  ///< before the number of the layer; the next are relative to it
    std::string_view ln_1 = {}, q = {}, k = {}, v = {}, q_norm = {}, k_norm = {}, attn_proj = {};
    std::string_view ln_2 = {}, fc = {}, gate = {}, mlp_proj = {};
    std::string_view ln_f = {}, head = {};
    bool stacks_qkv = false;   ///< q, k and v are one tensor, called q
    bool transposes = false;   ///< linear layers are [in, out]
    bool has_biases = false;   ///< of linear layers, in every model
    bool needs_head = false;   ///< a copy of tied embeddings
    bool interleaves = false;  ///< the rows of q and k, as RoPE of neighbouring features needs
};

constexpr TensorNames hf_names = {.embedding = "model.embed_tokens",
                                  .block = "model.layers.",
                                  .ln_1 = "input_layernorm",
                                  .q = "self_attn.q_proj",
                                  .k = "self_attn.k_proj",
                                  .v = "self_attn.v_proj",
                                  .q_norm = "self_attn.q_norm",
                                  .k_norm = "self_attn.k_norm",
                                  .attn_proj = "self_attn.o_proj",
                                  .ln_2 = "post_attention_layernorm",
                                  .fc = "mlp.up_proj",
                                  .gate = "mlp.gate_proj",
                                  .mlp_proj = "mlp.down_proj",
                                  .ln_f = "model.norm",
                                  .head = "lm_head"};

constexpr TensorNames hf_gpt2_names = {.embedding = "transformer.wte",
                                       .positions = "transformer.wpe",
                                       .block = "transformer.h.",
                                       .ln_1 = "ln_1",
                                       .q = "attn.c_attn",
                                       .attn_proj = "attn.c_proj",
                                       .ln_2 = "ln_2",
                                       .fc = "mlp.c_fc",
                                       .mlp_proj = "mlp.c_proj",
                                       .ln_f = "transformer.ln_f",
                                       .head = "lm_head",
                                       .stacks_qkv = true,
                                       .transposes = true,
                                       .has_biases = true};

constexpr TensorNames gguf_names = {.embedding = "token_embd",
                                    .positions = "position_embd",
                                    .block = "blk.",
                                    .ln_1 = "attn_norm",
                                    .q = "attn_q",
                                    .k = "attn_k",
                                    .v = "attn_v",
                                    .q_norm = "attn_q_norm",
                                    .k_norm = "attn_k_norm",
                                    .attn_proj = "attn_output",
                                    .ln_2 = "ffn_norm",
                                    .fc = "ffn_up",
                                    .gate = "ffn_gate",
                                    .mlp_proj = "ffn_down",
                                    .ln_f = "output_norm",
                                    .head = "output"};

TensorNames hf_names_of(HfClass hf_class) {
    TensorNames names = hf_class == HfClass::gpt2 ? hf_gpt2_names : hf_names;
    if (hf_class == HfClass::starcoder2) {
        names.fc = "mlp.c_fc";
        names.mlp_proj = "mlp.c_proj";
    }
    return names;
}

TensorNames gguf_names_of(HfClass hf_class) {
    TensorNames names = gguf_names;
    if (hf_class == HfClass::gpt2) {
        names.q = "attn_qkv";
        names.stacks_qkv = true;
    }
    names.has_biases = hf_class == HfClass::gpt2 || hf_class == HfClass::starcoder2;
    if (hf_class == HfClass::glm4_moe) names.ln_2 = "post_attention_norm";
    names.needs_head = hf_class == HfClass::stablelm || hf_class == HfClass::qwen2_moe;
    names.interleaves = is_llama(hf_class);
    return names;
}

/// Lists the tensors of a model as another program names and stores them.
class TensorList {
public:
    /// The tensors of a layer's experts, if there are any.
    using ExpertLists = std::function<std::vector<ForeignTensor>(std::int64_t layer)>;

    TensorList(const ModelShape& model, const TensorNames& names, ExpertLists experts)
        : model_(model),
          names_(names),
          experts_(std::move(experts)),
          norm_biases_(model.normalization == Normalization::layernorm) {}

    std::vector<ForeignTensor> list() {
        add(text(names_.embedding, ".weight"), {model_.vocab, model_.hidden}, {{"wte.weight"}});
        if (model_.position_embedding == PositionEmbedding::learned) {
            add(text(names_.positions, ".weight"), {model_.max_positions, model_.hidden},
                {{"wpe.weight"}});
        }
        for (std::int64_t i = 0; i < model_.layers; ++i)
            block(i, text(names_.block, i, "."), BlockId{i}.name + ".");
        norm(std::string(names_.ln_f), "ln_f");
        if (!model_.tie_embeddings || names_.needs_head) {
            add(text(names_.head, ".weight"), {model_.vocab, model_.hidden},
                {{model_.tie_embeddings ? "wte.weight" : "head.weight"}});
        }
        return std::move(tensors_);
    }

private:
    void add(std::string name, const Shape& shape, std::vector<TensorPart> parts,
             bool transposed = false) {
        tensors_.push_back({std::move(name), shape, std::move(parts), transposed});
    }

    void norm(const std::string& theirs, const std::string& ours) {
        add(theirs + ".weight", {model_.hidden}, {{ours + ".weight"}});
        if (!norm_biases_) return;
        add(theirs + ".bias", {model_.hidden}, with_biases(ours + ".bias"));
    }

    /// The tensor, or nothing in a model without biases.
    std::vector<TensorPart> with_biases(const std::string& name) const {
        return model_.bias ? std::vector<TensorPart>{{name}} : std::vector<TensorPart>{};
    }

    /// A linear layer; `ours` are stacked.
    void linear(const std::string& theirs, std::int64_t outputs, std::int64_t inputs,
                const std::vector<std::string>& ours, bool bias) {
        std::vector<TensorPart> weights;
        std::vector<TensorPart> biases;
        for (const std::string& name : ours) {
            weights.push_back({name + ".weight"});
            if (bias) biases.push_back({name + ".bias"});
        }
        const Shape shape = names_.transposes ? Shape{inputs, outputs} : Shape{outputs, inputs};
        add(theirs + ".weight", shape, std::move(weights), names_.transposes);
        if (names_.has_biases || bias) add(theirs + ".bias", {outputs}, std::move(biases));
    }

    /// q or k.
    void rotated(const std::string& theirs, std::int64_t rows, const std::string& ours) {
        const std::size_t first = tensors_.size();
        linear(theirs, rows, model_.hidden, {ours}, model_.qkv_bias);
        if (!names_.interleaves) return;
        for (std::size_t i = first; i < tensors_.size(); ++i)
            tensors_[i].interleaved = model_.head_dim;
    }

    void block(std::int64_t layer, const std::string& theirs, const std::string& ours) {
        const std::int64_t q_rows = model_.heads * model_.head_dim;
        const std::int64_t kv_rows = model_.groups * model_.head_dim;
        const auto at = [&](std::string_view name) { return text(theirs, name); };
        norm(at(names_.ln_1), ours + "ln_1");
        const std::string q = ours + "attn.q";
        const std::string k = ours + "attn.k";
        const std::string v = ours + "attn.v";
        if (names_.stacks_qkv) {
            linear(at(names_.q), q_rows + 2 * kv_rows, model_.hidden, {q, k, v}, model_.qkv_bias);
        } else {
            rotated(at(names_.q), q_rows, q);
            rotated(at(names_.k), kv_rows, k);
            linear(at(names_.v), kv_rows, model_.hidden, {v}, model_.qkv_bias);
        }
        if (model_.qk_norm == QkNorm::head) {
            add(at(names_.q_norm) + ".weight", {model_.head_dim}, {{q + "_norm.weight"}});
            add(at(names_.k_norm) + ".weight", {model_.head_dim}, {{k + "_norm.weight"}});
        }
        linear(at(names_.attn_proj), model_.hidden, q_rows, {ours + "attn.proj"}, model_.bias);
        norm(at(names_.ln_2), ours + "ln_2");
        if (model_.has_experts(layer)) {
            for (ForeignTensor& tensor : experts_(layer))
                tensors_.push_back(std::move(tensor));
            return;
        }
        linear(at(names_.fc), model_.ffn, model_.hidden, {ours + "mlp.fc"}, model_.bias);
        if (gated(model_.activation))
            linear(at(names_.gate), model_.ffn, model_.hidden, {ours + "mlp.gate"}, model_.bias);
        linear(at(names_.mlp_proj), model_.hidden, model_.ffn, {ours + "mlp.proj"}, model_.bias);
    }

    const ModelShape& model_;
    TensorNames names_;
    ExpertLists experts_;
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

/// The rows in the order of the file.
std::vector<float> interleaved(std::span<const float> from, const ForeignTensor& tensor) {
    std::vector<float> to(from.size());
    const std::int64_t rows = tensor.shape[0];
    const std::int64_t columns = tensor.shape.elements() / rows;
    for (std::int64_t row = 0; row < rows; ++row) {
        const auto values = from.subspan(static_cast<std::size_t>(row * columns),
                                         static_cast<std::size_t>(columns));
        std::copy(values.begin(), values.end(),
                  to.begin() + stored_row(row, tensor.interleaved) * columns);
    }
    return to;
}

}  // namespace

std::vector<Shard> whole_tensors(const ModelShape& model) {
    const LayoutRequest whole = {
        .model = model,
        .chunks = {
            {.first_layer = 0, .num_layers = model.layers, .embedding = true, .head = true}}};
    std::vector<Shard> tensors;
    for (const Parameter& parameter : make_layout(whole).parameters)
        tensors.push_back(parameter.shard);
    return tensors;
}

std::map<std::string, Shape> model_shapes(const ModelShape& model) {
    std::map<std::string, Shape> shapes;
    for (const Shard& tensor : whole_tensors(model))
        shapes.emplace(tensor.name, tensor.global);
    return shapes;
}

std::vector<ForeignTensor> hf_tensors(const ModelShape& model, HfClass hf_class,
                                      const std::function<bool(std::int64_t)>& fused) {
    const auto experts = [&](std::int64_t layer) {
        return hf_expert_tensors(model, hf_class, layer, fused && fused(layer));
    };
    return TensorList(model, hf_names_of(hf_class), experts).list();
}

std::vector<ForeignTensor> gguf_tensors(const ModelShape& model, HfClass hf_class) {
    const auto experts = [&](std::int64_t layer) {
        return gguf_expert_tensors(model, hf_class, layer);
    };
    return TensorList(model, gguf_names_of(hf_class), experts).list();
}

std::int64_t stored_row(std::int64_t row, std::int64_t interleaved) {
    if (interleaved == 0) return row;
    const std::int64_t half = interleaved / 2;
    const std::int64_t feature = row % interleaved;
    return row - feature + (feature < half ? 2 * feature : 2 * (feature - half) + 1);
}

Shard shard_of(const TensorPart& part, const std::map<std::string, Shape>& shapes) {
    Shard shard = Shard::whole(part.name, shapes.at(part.name));
    if (!part.expert) return shard;
    shard.box.offset[0] = *part.expert;
    shard.box.extent[0] = 1;
    shard.flat_end = shard.box.extent.elements();
    return shard;
}

std::vector<float> read_all(const WeightReader& ours, const Shard& tensor) {
    std::vector<float> values(static_cast<std::size_t>(tensor.elements()));
    ours(tensor, values);
    return values;
}

void read_foreign(const ForeignTensor& tensor, const std::map<std::string, Shape>& shapes,
                  const WeightReader& ours, std::vector<float>& to) {
    to.assign(static_cast<std::size_t>(tensor.shape.elements()), 0.0F);
    std::size_t filled = 0;
    for (const TensorPart& part : tensor.parts) {
        const Shard whole = shard_of(part, shapes);
        const auto count = static_cast<std::size_t>(whole.elements());
        ours(whole, std::span(to).subspan(filled, count));
        filled += count;
    }
    GPTRAIN_CHECK(tensor.parts.empty() || filled == to.size(), tensor.name);
    if (tensor.parts.empty()) return;
    if (tensor.transposed) to = transposed(to, tensor.shape[1], tensor.shape[0]);
    if (tensor.interleaved != 0) to = interleaved(to, tensor);
}

}  // namespace gptrain
