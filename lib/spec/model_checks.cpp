#include "spec/model_checks.h"

#include <cmath>
#include <string_view>
#include <variant>
#include <vector>

#include "spec/plan_checks.h"

namespace gptrain {
namespace {

void check_layers(std::string_view key, const std::vector<std::int64_t>& layers,
                  std::int64_t count) {
    for (const std::int64_t layer : layers) {
        require(layer < count, key, ": there is no layer ", layer,
                " in a model with model.num_layers ", count, "; layers count from 0");
    }
}

}  // namespace

void check_positions(const RunSpec& spec) {
    const ModelSpec& model = spec.model;
    require(model.position_embedding != PositionEmbedding::alibi ||
                !std::holds_alternative<MlmSpec>(spec.objective),
            "model.position_embedding alibi lets a token see only earlier ones, unlike objective "
            "mlm; set another, or objective to causal");
    if (const auto& scaling = model.rope_scaling) {
        require(model.position_embedding == PositionEmbedding::rope,
                "model.rope_scaling needs model.position_embedding rope; set that, or "
                "model.rope_scaling to none");
        require(scaling->kind == RopeScalingKind::linear ||
                    scaling->original_max_position_embeddings > 0,
                "model.rope_scaling.original_max_position_embeddings is missing; ",
                name_of(scaling->kind), " needs the text length that the model was trained with");
        require(scaling->kind != RopeScalingKind::llama3 ||
                    scaling->high_freq_factor > scaling->low_freq_factor,
                "model.rope_scaling.high_freq_factor ", scaling->high_freq_factor,
                " is not above low_freq_factor ", scaling->low_freq_factor, "; raise it");
        require(scaling->kind != RopeScalingKind::yarn || scaling->beta_fast >= scaling->beta_slow,
                "model.rope_scaling.beta_fast ", scaling->beta_fast, " is below beta_slow ",
                scaling->beta_slow, "; raise it");
        require(scaling->kind != RopeScalingKind::yarn || model.rope_theta > 1, "model.rope_theta ",
                model.rope_theta,
                " is not above 1, which model.rope_scaling.kind yarn needs; raise it");
    }
    check_layers("model.full_attention_layers", model.full_attention_layers, model.num_layers);
    check_layers("model.unrotated_layers", model.unrotated_layers, model.num_layers);
}

void check_rotated_dims(const ModelShape& shape) {
    if (shape.position_embedding != PositionEmbedding::rope) return;
    require(shape.rotary_fraction < 1 || shape.head_dim % 2 == 0,
            "model.position_embedding rope rotates halves and needs an even model.head_dim, not ",
            shape.head_dim, "; change the heads or set model.head_dim");
    constexpr double rounding = 1.0e-6;  // of a fraction that was written in decimals
    const double dims = shape.rotary_fraction * static_cast<double>(shape.head_dim);
    const auto whole = static_cast<double>(shape.rotary_dims());
    require(shape.rotary_dims() > 0 && shape.rotary_dims() % 2 == 0 &&
                std::abs(dims - whole) < rounding,
            "model.rotary_fraction ", shape.rotary_fraction, " x model.head_dim ", shape.head_dim,
            " = ", dims, " dims, but rotations need an even number of them; change one");
}

void check_block(const ModelSpec& model) {
    require(model.parallel_residual == ParallelResidual::none ||
                model.norm_placement == NormPlacement::before,
            "model.parallel_residual ", name_of(model.parallel_residual),
            " needs model.norm_placement before, not ", name_of(model.norm_placement),
            "; change one of them");
}

}  // namespace gptrain
