#include "interop/foreign_tensors.h"

#include <algorithm>

#include "base/checked.h"
#include "interop/gguf_experts.h"
#include "interop/hf_experts.h"
#include "interop/tensor_names.h"
#include "model/layout.h"

namespace gptrain {
namespace {

/// Lists the tensors of a model as another program names and stores them.
class TensorList {
public:
    /// The tensors of a layer's experts, if there are any.
    using ExpertLists = std::function<std::vector<ForeignTensor>(std::int64_t layer)>;

    TensorList(const ModelShape& model, const TensorNames& names, ExpertLists experts)
        : model_(model), names_(names), experts_(std::move(experts)) {}

    std::vector<ForeignTensor> list() {
        add(text(names_.embedding, ".weight"), {model_.vocab, model_.hidden}, {{"wte.weight"}});
        if (model_.position_embedding == PositionEmbedding::learned) positions();
        if (model_.embedding_norm) norm(std::string(names_.embedding_norm), "ln_wte");
        for (std::int64_t i = 0; i < model_.layers; ++i)
            block(i, text(names_.block, i, "."), BlockId{i}.name + ".");
        norm(std::string(names_.ln_f), "ln_f", names_.ln_f_factor);
        head();
        return std::move(tensors_);
    }

private:
    /// Rows of a linear layer of ours, and where they are in the file's stack.
    struct Rows {
        std::string name;
        std::int64_t count = 0;
        StackRows at = {};
    };

    ForeignTensor& add(std::string name, const Shape& shape, std::vector<TensorPart> parts) {
        tensors_.push_back({std::move(name), shape, std::move(parts)});
        return tensors_.back();
    }

    void positions() {
        const std::int64_t spare = names_.spare_positions;
        add(text(names_.positions, ".weight"), {model_.max_positions + spare, model_.hidden},
            {{.name = "wpe.weight", .rows = {.first = spare}}})
            .spare_rows = spare;
    }

    void head() {
        if (!model_.tie_embeddings || names_.needs_head) {
            add(text(names_.head, ".weight"), {model_.vocab, model_.hidden},
                {{model_.tie_embeddings ? "wte.weight" : "head.weight"}});
        }
        if (model_.head_bias || names_.biases.head) {
            add(text(names_.head, ".bias"), {model_.vocab},
                parts_if(model_.head_bias, "head.bias"));
        }
    }

    static std::vector<TensorPart> parts_if(bool ours, const std::string& name) {
        return ours ? std::vector<TensorPart>{{name}} : std::vector<TensorPart>{};
    }

    void norm(const std::string& theirs, const std::string& ours, double factor = 1) {
        ForeignTensor& weight = add(theirs + ".weight", {model_.hidden}, {{ours + ".weight"}});
        weight.addend = names_.norms_less_1 ? 1 : 0;
        weight.factor = factor;
        if (model_.normalization != Normalization::layernorm) return;
        if (!model_.norm_bias && !names_.biases.norm) return;
        add(theirs + ".bias", {model_.hidden}, parts_if(model_.norm_bias, ours + ".bias")).factor =
            factor;
    }

    /// A linear layer whose rows are those of ours.
    struct Linear {
        std::string theirs;
        std::int64_t outputs = 0, inputs = 0;
        std::vector<Rows> ours;
        bool bias = false;          ///< our model has one
        bool bias_in_file = false;  ///< the file has one anyway
    };
    void linear(const Linear& layer) {
        std::vector<TensorPart> weights;
        std::vector<TensorPart> biases;
        for (const auto& [name, count, at] : layer.ours) {
            weights.push_back({.name = name + ".weight", .rows = at});
            if (layer.bias) biases.push_back({.name = name + ".bias", .rows = at});
        }
        const Shape shape = names_.transposes ? Shape{layer.inputs, layer.outputs}
                                              : Shape{layer.outputs, layer.inputs};
        add(layer.theirs + ".weight", shape, std::move(weights)).transposed = names_.transposes;
        if (layer.bias || layer.bias_in_file)
            add(layer.theirs + ".bias", {layer.outputs}, std::move(biases));
    }

    /// Rows that follow each other: `ours`, from `first` on.
    static Rows after(std::string ours, std::int64_t count, std::int64_t first = 0) {
        return {.name = std::move(ours), .count = count, .at = {.first = first}};
    }

    void qkv(const std::string& theirs, const std::string& ours) {
        const std::int64_t dim = model_.head_dim;
        const std::int64_t q_rows = model_.heads * dim;
        const std::int64_t kv_rows = model_.groups * dim;
        std::vector<Rows> rows = {after(ours + "q", q_rows), after(ours + "k", kv_rows),
                                  after(ours + "v", kv_rows)};
        if (names_.pairs_rows) {
            for (std::size_t i = 0; i < 2; ++i) {
                rows[i].at.head = dim;
                rows[i].at.turned = model_.rotary_dims();
            }
        }
        const auto store = [&](std::string_view name, std::int64_t outputs,
                               std::vector<Rows> parts) {
            linear({text(theirs, name), outputs, model_.hidden, std::move(parts), model_.qkv_bias,
                    names_.biases.qkv});
        };
        if (names_.qkv == QkvLayout::separate) {
            store(names_.q, q_rows, {rows[0]});
            store(names_.k, kv_rows, {rows[1]});
            store(names_.v, kv_rows, {rows[2]});
            return;
        }
        std::int64_t first = 0;
        for (Rows& part : rows) {
            part.at.first = first;
            const bool by_group = names_.qkv == QkvLayout::by_group;
            first += by_group ? part.count / model_.groups : part.count;
            if (!by_group) continue;
            part.at.block = part.count / model_.groups;
            part.at.stride = (q_rows + 2 * kv_rows) / model_.groups;
        }
        store(names_.q, q_rows + 2 * kv_rows, std::move(rows));
    }

    void qk_norm(const std::string& theirs, const std::string& ours, std::int64_t heads) {
        const std::int64_t rows = model_.qk_norm == QkNorm::all ? heads : 1;
        add(theirs + ".weight", {rows * model_.head_dim}, {{ours + ".weight"}}).addend =
            names_.norms_less_1 ? 1 : 0;
    }

    void attention(const std::string& theirs, const std::string& ours) {
        qkv(theirs, ours);
        if (model_.qk_norm != QkNorm::none) {
            qk_norm(text(theirs, names_.q_norm), ours + "q_norm", model_.heads);
            qk_norm(text(theirs, names_.k_norm), ours + "k_norm", model_.groups);
        }
        if (model_.attention_sinks)
            add(text(theirs, names_.sinks), {model_.heads}, {{ours + "sinks"}});
        const std::int64_t width = model_.heads * model_.head_dim;
        linear({text(theirs, names_.attn_proj),
                model_.hidden,
                width,
                {after(ours + "proj", model_.hidden)},
                model_.attention_bias,
                names_.biases.attention});
    }

    void mlp(const std::string& theirs, const std::string& ours) {
        const std::int64_t width = model_.ffn;
        const auto inner = [&](std::string_view name, const std::vector<Rows>& parts) {
            linear({text(theirs, name), width * std::ssize(parts), model_.hidden, parts,
                    model_.bias, names_.biases.mlp});
        };
        if (!gated(model_.activation)) {
            inner(names_.fc, {after(ours + "fc", width)});
        } else if (names_.stacks_gate) {
            inner(names_.gate, {after(ours + "gate", width), after(ours + "fc", width, width)});
        } else {
            inner(names_.fc, {after(ours + "fc", width)});
            inner(names_.gate, {after(ours + "gate", width)});
        }
        linear({text(theirs, names_.mlp_proj),
                model_.hidden,
                width,
                {after(ours + "proj", model_.hidden)},
                model_.bias,
                names_.biases.mlp});
    }

    void block(std::int64_t layer, const std::string& theirs, const std::string& ours) {
        const bool both = model_.norm_placement == NormPlacement::both;
        norm(text(theirs, names_.ln_1), ours + "ln_1");
        attention(theirs, ours + "attn.");
        if (both) norm(text(theirs, names_.ln_1_post), ours + "ln_1_post");
        if (model_.parallel_residual != ParallelResidual::one_norm)
            norm(text(theirs, names_.ln_2), ours + "ln_2");
        if (model_.has_experts(layer)) {
            for (ForeignTensor& tensor : experts_(layer))
                tensors_.push_back(std::move(tensor));
        } else {
            mlp(theirs, ours + "mlp.");
        }
        if (both) norm(text(theirs, names_.ln_2_post), ours + "ln_2_post");
    }

    const ModelShape& model_;
    TensorNames names_;
    ExpertLists experts_;
    std::vector<ForeignTensor> tensors_;
};

/// Copies the elements of a part to their places in the file's tensor.
void scatter(const ForeignTensor& tensor, const StackRows& rows, std::int64_t columns,
             std::span<const float> from, std::span<float> to) {
    const std::int64_t step = tensor.transposed ? tensor.shape[tensor.shape.rank() - 1] : 0;
    for (std::int64_t at = 0; at < std::ssize(from); ++at) {
        const std::int64_t row = rows.at(at / columns);
        const std::int64_t column = at % columns;
        const std::int64_t place = step == 0
                                       ? row * columns + column
                                       : row / step * step * columns + column * step + row % step;
        to[static_cast<std::size_t>(place)] = from[static_cast<std::size_t>(at)];
    }
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
                                      const HfForm& form) {
    const auto experts = [&](std::int64_t layer) {
        return hf_expert_tensors(model, hf_class, layer, form.fused && form.fused(layer));
    };
    TensorNames names = hf_tensor_names(model, hf_class);
    names.ln_f_factor = form.logit_factor;
    return TensorList(model, names, experts).list();
}

std::vector<ForeignTensor> gguf_tensors(const ModelShape& model, HfClass hf_class) {
    const auto experts = [&](std::int64_t layer) {
        return gguf_expert_tensors(model, hf_class, layer);
    };
    return TensorList(model, gguf_tensor_names(model, hf_class), experts).list();
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

std::int64_t columns_of(const TensorPart& part, const Shape& shape) {
    const int dims = shape.rank() - (part.expert ? 1 : 0);
    return dims > 1 ? shape[shape.rank() - 1] : 1;
}

void read_foreign(const ForeignTensor& tensor, const std::map<std::string, Shape>& shapes,
                  const WeightReader& ours, std::vector<float>& to) {
    to.assign(static_cast<std::size_t>(tensor.shape.elements()), 0.0F);
    if (tensor.parts.empty()) return;
    std::int64_t filled = 0;
    std::vector<float> values;
    for (const TensorPart& part : tensor.parts) {
        const Shard whole = shard_of(part, shapes);
        const std::int64_t columns = columns_of(part, shapes.at(part.name));
        const auto count = static_cast<std::size_t>(whole.elements());
        if (part.rows.contiguous() && !tensor.transposed) {
            ours(whole,
                 std::span(to).subspan(static_cast<std::size_t>(part.rows.first * columns), count));
        } else {
            values.resize(count);
            ours(whole, values);
            scatter(tensor, part.rows, columns, values, to);
        }
        filled += whole.elements() / columns;
    }
    const std::int64_t columns = columns_of(tensor.parts[0], shapes.at(tensor.parts[0].name));
    GPTRAIN_CHECK((filled + tensor.spare_rows) * columns == std::ssize(to), tensor.name);
    if (tensor.addend == 0 && tensor.factor == 1) return;
    for (float& value : to) {
        value = (value - static_cast<float>(tensor.addend)) / static_cast<float>(tensor.factor);
    }
}

}  // namespace gptrain
