#include "spec/run_plan.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/checked.h"

namespace gptrain {

bool ModelShape::has_window(std::int64_t layer) const {
    return sliding_window &&
           !std::binary_search(full_attention_layers.begin(), full_attention_layers.end(), layer);
}

bool Lora::adapts(LinearName layer) const {
    return std::find(targets.begin(), targets.end(), layer) != targets.end();
}

ModelShape without_adapter(ModelShape model) {
    model.lora.reset();
    model.prompt.reset();
    return model;
}

namespace {

/// Rows and columns of the matrix of a linear layer.
std::pair<std::int64_t, std::int64_t> size_of(const ModelShape& model, LinearName layer) {
    const std::int64_t q_size = model.heads * model.head_dim;
    const std::int64_t kv_size = model.groups * model.head_dim;
    switch (layer) {
        case LinearName::attn_q: return {q_size, model.hidden};
        case LinearName::attn_k:
        case LinearName::attn_v: return {kv_size, model.hidden};
        case LinearName::attn_proj: return {model.hidden, q_size};
        case LinearName::mlp_fc:
        case LinearName::mlp_gate: return {model.ffn, model.hidden};
        case LinearName::mlp_proj: return {model.hidden, model.ffn};
    }
    return {};
}

std::int64_t lora_parameters(const ModelShape& model) {
    if (!model.lora) return 0;
    std::int64_t sum = 0;
    for (const LinearName layer : model.lora->targets) {
        const auto [outputs, inputs] = size_of(model, layer);
        sum += model.lora->rank * (outputs + inputs);
    }
    return model.layers * sum;
}

std::int64_t prompt_parameters(const ModelShape& model) {
    if (!model.prompt) return 0;
    const std::int64_t hidden = model.hidden;
    const std::int64_t inner = model.prompt->encoder_hidden;
    const std::int64_t encoder =
        inner == 0 ? 0 : inner * (hidden + inner + hidden) + inner + inner + hidden;
    return model.prompt->tokens * hidden + encoder;
}

}  // namespace

std::int64_t parameter_count(const ModelShape& model) {
    const auto& [L, H, N, G, D, F, V] =
        std::array{model.layers,   model.hidden, model.heads, model.groups,
                   model.head_dim, model.ffn,    model.vocab};
    const std::int64_t fc = input_width(model.activation, F);
    const std::int64_t qkv = (N + 2 * G) * D;
    const bool norm_bias = model.bias && model.normalization == Normalization::layernorm;
    const std::int64_t norm = norm_bias ? 2 * H : H;
    const std::int64_t gemm_weights = qkv * H + H * N * D + fc * H + H * F;
    const std::int64_t biases =
        (model.qkv_bias ? qkv : 0) + (model.bias ? H + fc + H : 0) + (model.qk_norm ? 2 * D : 0);
    const std::int64_t positions =
        model.position_embedding == PositionEmbedding::learned ? model.max_positions : 0;
    const std::int64_t vocabularies = model.tie_embeddings ? 1 : 2;
    return (vocabularies * V + positions) * H + L * (gemm_weights + biases + 2 * norm) + norm +
           lora_parameters(model) + prompt_parameters(model);
}

double flops_per_token(const ModelShape& model, std::int64_t seq_length) {
    double attention = 0;
    for (std::int64_t layer = 0; layer < model.layers; ++layer)
        attention += attention_flops_per_token(model, layer, seq_length);
    // Virtual tokens are computed once for a microbatch, not for each of its tokens.
    const std::int64_t parameters = parameter_count(model) - prompt_parameters(model);
    return 6 * static_cast<double>(parameters) + attention;
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

std::int64_t dealt_microbatches(std::int64_t microbatches, std::int64_t data_ranks,
                                std::int64_t data_rank) {
    return microbatches / data_ranks + (data_rank < microbatches % data_ranks ? 1 : 0);
}

std::int64_t RunPlan::microbatches(std::int64_t global_batch_size, std::int64_t data_rank) const {
    return dealt_microbatches(div_exact(global_batch_size, micro_batch_size), mesh.data, data_rank);
}

}  // namespace gptrain
