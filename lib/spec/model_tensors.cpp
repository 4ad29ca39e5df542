#include "spec/model_tensors.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <string_view>

#include "spec/plan_checks.h"

namespace gptrain {
namespace {

/// Rows of a linear layer's stacked matrix.
struct Output {
    std::string_view name;
    std::int64_t rows;
    TensorSplit split;
    std::optional<LinearName> adapted = {};  ///< by LoRA, as this layer

    Output(LinearName layer, std::int64_t count, TensorSplit how)
        : name(name_of(layer)), rows(count), split(how), adapted(layer) {}
    Output(std::string_view layer, std::int64_t count, TensorSplit how)
        : name(layer), rows(count), split(how) {}
};

/// Lists the groups of a part of the model.
class GroupList {
public:
    explicit GroupList(const ModelShape& model) : model_(model) {}

    void embedding(const std::string& name, std::int64_t rows, TensorSplit split) {
        add({.name = name,
             .rows = rows,
             .columns = model_.hidden,
             .init = drawn(),
             .split = split});
    }
    void norm(const std::string& name) {
        add({.name = name + ".weight", .rows = model_.hidden, .init = ones});
        if (model_.norm_bias && model_.normalization == Normalization::layernorm)
            add({.name = name + ".bias", .rows = model_.hidden});
    }
    /// The norm of each head of q or k.
    void head_norm(const std::string& name) {
        add({.name = name + ".weight",
             .rows = model_.head_dim,
             .init = ones,
             .partial_gradient = true});
    }
    /// The norm of all heads of q or k, which tp splits like these.
    void whole_norm(const std::string& name, std::int64_t rows, TensorSplit split) {
        add({.name = name + ".weight", .rows = rows, .init = ones, .split = split});
    }
    /// A number for each head of queries.
    void sinks(const std::string& name) {
        add({.name = name, .rows = model_.heads, .split = TensorSplit::rows});
    }
    void head_bias() {
        add({.name = "head.bias", .rows = model_.vocab, .split = TensorSplit::rows});
    }
    /// A linear layer of the block with the prefix `block` that stacks `outputs`.
    struct LinearGroup {
        std::string block;
        std::string name;
        std::vector<Output> outputs;
        std::int64_t inputs;
        Initialisation init;
        bool bias;
    };
    void linear(const LinearGroup& linear) {
        TensorGroup weight = {linear.block + linear.name + ".weight", {}, true};
        TensorGroup bias = {linear.block + linear.name + ".bias", {}};
        for (const auto& [name, rows, split, adapted] : linear.outputs) {
            const std::string output = text(linear.block, name);
            weight.tensors.push_back({.name = output + ".weight",
                                      .rows = rows,
                                      .columns = linear.inputs,
                                      .init = linear.init,
                                      .split = split});
            bias.tensors.push_back(
                {.name = output + ".bias", .rows = rows, .split = bias_split(split)});
        }
        groups_.push_back(std::move(weight));
        if (linear.bias) groups_.push_back(std::move(bias));
        if (model_.lora) lora(linear);
    }
    /// One logit of each token for each of `outputs`.
    void router(const std::string& name, std::int64_t outputs) {
        add({.name = name + ".weight", .rows = outputs, .columns = model_.hidden, .init = drawn()});
    }
    void router_biases(const std::string& name, const ExpertsSpec& experts) {
        if (experts.router.logit_bias) add({.name = name + ".bias", .rows = experts.count});
        if (experts.balance.bias_rate)
            add({.name = name + ".balance", .rows = experts.count, .active = 0, .balance = true});
    }
    /// A linear layer for each expert.
    void grouped(const LinearGroup& linear, const ExpertsSpec& experts) {
        TensorGroup weight = {linear.block + linear.name + ".weight", {}, true};
        TensorGroup bias = {linear.block + linear.name + ".bias", {}};
        const double active =
            static_cast<double>(experts.per_token) / static_cast<double>(experts.count);
        for (const auto& [name, rows, split, adapted] : linear.outputs) {
            const std::string output = text(linear.block, name);
            weight.tensors.push_back({.name = output + ".weight",
                                      .rows = rows,
                                      .columns = linear.inputs,
                                      .experts = experts.count,
                                      .init = linear.init,
                                      .split = split,
                                      .active = active});
            bias.tensors.push_back({.name = output + ".bias",
                                    .rows = rows,
                                    .experts = experts.count,
                                    .split = bias_split(split),
                                    .active = active});
        }
        groups_.push_back(std::move(weight));
        if (linear.bias) groups_.push_back(std::move(bias));
    }
    /// The embeddings of virtual tokens, and the encoder that p-tuning puts behind them. Its
    /// initial values have the variances of PEFT's, so that what it computes is about as large as
    /// embeddings are. None of it is active: it is computed once for a microbatch, not for each of
    /// its tokens.
    void prompt(const SoftPrompt& prompt) {
        const std::int64_t inner = prompt.encoder_hidden;
        const Initialisation init = inner == 0 ? drawn() : Initialisation{.std = 1};
        add({.name = "prompt.weight",
             .rows = prompt.tokens,
             .columns = model_.hidden,
             .init = init,
             .split = TensorSplit::rows,
             .active = 0});
        if (inner == 0) return;
        encoder_layer("prompt.encoder.0", inner, model_.hidden);
        encoder_layer("prompt.encoder.1", inner, inner);
        encoder_layer("prompt.encoder.2", model_.hidden, inner);
    }
    Initialisation drawn() const { return {.std = model_.init_std}; }
    /// Projections onto the residual stream start smaller so that its variance does not grow with
    /// depth (GPT-2).
    Initialisation projection() const {
        return {.std = model_.init_std / std::sqrt(2.0 * static_cast<double>(model_.layers))};
    }
    std::vector<TensorGroup> take() { return std::move(groups_); }

private:
    static constexpr Initialisation ones = {.constant = 1};

    /// A row-parallel layer adds its bias once to the sum, unsplit.
    static TensorSplit bias_split(TensorSplit split) {
        return split == TensorSplit::columns ? TensorSplit::none : split;
    }

    /// A is drawn with the variance of PEFT's initial values; B starts at 0, so that the adapter
    /// changes nothing at first.
    void lora(const LinearGroup& linear) {
        const std::int64_t rank = model_.lora->rank;
        const Initialisation drawn = {.std =
                                          1 / std::sqrt(3.0 * static_cast<double>(linear.inputs))};
        TensorGroup a = {text(linear.block, linear.name, lora_a_suffix), {}};
        TensorGroup b = {text(linear.block, linear.name, lora_b_suffix), {}};
        for (const auto& [name, rows, split, adapted] : linear.outputs) {
            if (!adapted || !model_.lora->adapts(*adapted)) continue;
            const std::string output = text(linear.block, name);
            // Of a column-parallel layer every rank holds A and the rows of B for its outputs; of a
            // row-parallel layer B and the columns of A for its inputs. The matrix that every rank
            // holds gets a part of its gradient from each of them.
            const bool row_parallel = split == TensorSplit::columns;
            a.tensors.push_back({.name = text(output, lora_a_suffix),
                                 .rows = rank,
                                 .columns = linear.inputs,
                                 .init = drawn,
                                 .split = row_parallel ? split : TensorSplit::none,
                                 .partial_gradient = !row_parallel});
            b.tensors.push_back({.name = text(output, lora_b_suffix),
                                 .rows = rows,
                                 .columns = rank,
                                 .init = {},
                                 .split = row_parallel ? TensorSplit::none : split,
                                 .partial_gradient = row_parallel});
        }
        if (a.tensors.empty()) return;
        groups_.push_back(std::move(a));
        groups_.push_back(std::move(b));
    }

    /// Every rank of tp encodes its own virtual tokens, and so has a part of the gradient.
    void encoder_layer(const std::string& name, std::int64_t outputs, std::int64_t inputs) {
        add({.name = name + ".weight",
             .rows = outputs,
             .columns = inputs,
             .init = {.std = 1 / std::sqrt(3.0 * static_cast<double>(inputs))},
             .partial_gradient = true,
             .active = 0});
        add({.name = name + ".bias", .rows = outputs, .partial_gradient = true, .active = 0});
    }

    void add(ModelTensor tensor) {
        std::string name = tensor.name;
        groups_.push_back({std::move(name), {std::move(tensor)}});
    }

    const ModelShape& model_;
    std::vector<TensorGroup> groups_;
};

void check_whole(const ParameterRules& rules, const TensorGroup& group) {
    const std::string& first = group.tensors.front().name;
    const bool trained = rules.trains(first);
    for (const ModelTensor& tensor : group.tensors) {
        require(rules.trains(tensor.name) == trained,
                "training.frozen: ", trained ? tensor.name : first, " would be frozen, but not ",
                trained ? first : tensor.name,
                ", which the same GEMM reads; freeze both or neither");
    }
}

void add_mlp(GroupList& list, const ModelShape& model, const std::string& at) {
    using enum TensorSplit;
    using enum LinearName;
    std::vector<Output> inner = {{mlp_fc, model.ffn, rows}};
    if (gated(model.activation)) inner.emplace_back(mlp_gate, model.ffn, rows);
    list.linear({.block = at,
                 .name = "mlp.fc_gate",
                 .outputs = inner,
                 .inputs = model.hidden,
                 .init = list.drawn(),
                 .bias = model.bias});
    list.linear({.block = at,
                 .name = "mlp.proj",
                 .outputs = {{mlp_proj, model.hidden, columns}},
                 .inputs = model.ffn,
                 .init = list.projection(),
                 .bias = model.bias});
}

/// The shared expert has no biases.
void add_experts(GroupList& list, const ModelShape& model, const std::string& at) {
    using enum TensorSplit;
    const ExpertsSpec& experts = *model.experts;
    const auto layers = [&](const auto& add, std::string_view name, std::int64_t width, bool bias) {
        const std::string fc = text(name, ".fc");
        const std::string gate = text(name, ".gate");
        const std::string proj = text(name, ".proj");
        std::vector<Output> inner = {{std::string_view(fc), width, rows}};
        if (gated(model.activation)) inner.emplace_back(std::string_view(gate), width, rows);
        add({.block = at,
             .name = text(name, ".fc_gate"),
             .outputs = inner,
             .inputs = model.hidden,
             .init = list.drawn(),
             .bias = bias});
        add({.block = at,
             .name = proj,
             .outputs = {{std::string_view(proj), model.hidden, columns}},
             .inputs = width,
             .init = list.projection(),
             .bias = bias});
    };
    list.router(at + "router", experts.count);
    list.router_biases(at + "router", experts);
    layers([&](const GroupList::LinearGroup& linear) { list.grouped(linear, experts); }, "experts",
           experts.ffn_hidden_size, experts.bias);
    if (!experts.shared) return;
    if (experts.shared->gate) list.router(at + "shared.router", 1);
    layers([&](const GroupList::LinearGroup& linear) { list.linear(linear); }, "shared",
           experts.shared->ffn_hidden_size, false);
}

}  // namespace

std::vector<TensorGroup> layer_tensors(const ModelShape& model, const BlockId& block) {
    const std::string at = block.name + ".";
    const std::int64_t q_size = model.heads * model.head_dim;
    const std::int64_t kv_size = model.groups * model.head_dim;
    using enum TensorSplit;
    using enum LinearName;
    GroupList list(model);
    list.norm(at + "ln_1");
    list.linear({.block = at,
                 .name = "attn.qkv",
                 .outputs = {{attn_q, q_size, rows},
                             {attn_k, kv_size, kv_rows},
                             {attn_v, kv_size, kv_rows}},
                 .inputs = model.hidden,
                 .init = list.drawn(),
                 .bias = model.qkv_bias});
    if (model.qk_norm == QkNorm::head) {
        list.head_norm(at + "attn.q_norm");
        list.head_norm(at + "attn.k_norm");
    }
    if (model.qk_norm == QkNorm::all) {
        list.whole_norm(at + "attn.q_norm", q_size, rows);
        list.whole_norm(at + "attn.k_norm", kv_size, kv_rows);
    }
    if (model.attention_sinks) list.sinks(at + "attn.sinks");
    list.linear({.block = at,
                 .name = "attn.proj",
                 .outputs = {{attn_proj, model.hidden, columns}},
                 .inputs = q_size,
                 .init = list.projection(),
                 .bias = model.attention_bias});
    const bool both = model.norm_placement == NormPlacement::both;
    if (both) list.norm(at + "ln_1_post");
    if (model.parallel_residual != ParallelResidual::one_norm) list.norm(at + "ln_2");
    if (model.has_experts(block.layer)) {
        add_experts(list, model, at);
    } else {
        add_mlp(list, model, at);
    }
    if (both) list.norm(at + "ln_2_post");
    return list.take();
}

std::vector<TensorGroup> embedding_tensors(const ModelShape& model) {
    GroupList list(model);
    list.embedding("wte.weight", model.vocab, TensorSplit::rows);
    if (model.position_embedding == PositionEmbedding::learned)
        list.embedding("wpe.weight", model.max_positions, TensorSplit::none);
    if (model.prompt) list.prompt(*model.prompt);
    if (model.embedding_norm) list.norm("ln_wte");
    return list.take();
}

std::vector<TensorGroup> head_tensors(const ModelShape& model) {
    GroupList list(model);
    list.norm("ln_f");
    if (model.head_bias) list.head_bias();
    if (!model.tie_embeddings) list.embedding("head.weight", model.vocab, TensorSplit::rows);
    return list.take();
}

std::vector<TensorGroup> all_tensors(const ModelShape& model) {
    std::vector<TensorGroup> all = embedding_tensors(model);
    const auto add = [&](std::vector<TensorGroup> groups) {
        std::move(groups.begin(), groups.end(), std::back_inserter(all));
    };
    for (std::int64_t layer = 0; layer < model.layers; ++layer)
        add(layer_tensors(model, {layer}));
    add(head_tensors(model));
    return all;
}

std::string_view head_matrix(const ModelShape& model) {
    return model.tie_embeddings ? "wte.weight" : "head.weight";
}

void check_frozen(const RunPlan& plan) {
    const ParameterRules& rules = plan.parameters;
    if (rules.frozen.empty()) return;
    std::vector<bool> matched(rules.frozen.size());
    bool any_trained = false;
    for (const TensorGroup& group : all_tensors(plan.model)) {
        check_whole(rules, group);
        any_trained |= !group.balance() && rules.trains(group.tensors.front().name);
        for (const ModelTensor& tensor : group.tensors) {
            for (std::size_t i = 0; i < matched.size(); ++i)
                if (!matched[i]) matched[i] = name_matches(rules.frozen[i], tensor.name);
        }
    }
    const auto lost = std::find(matched.begin(), matched.end(), false) - matched.begin();
    require(lost == std::ssize(matched), "training.frozen: no tensor of the model matches '",
            lost < std::ssize(matched) ? rules.frozen[static_cast<std::size_t>(lost)] : "",
            "'; tensors are named such as wte.weight or h.0.attn.q.weight, and * stands for any "
            "text");
    require(any_trained, "training.frozen: leaves nothing to train; remove a pattern");
}

}  // namespace gptrain
