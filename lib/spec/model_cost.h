// The parameters of a model and the floating-point work of a token, from the list of its tensors.
// The list (model_tensors.h) is the only source: a new kind of layer gives each of its tensors a
// shape and an active share there, and nothing here or in a formula elsewhere. Once a step runs on
// the meter, its counts are exact (meter/meter_backend.h).
#pragma once

#include <cstdint>
#include <vector>

#include "spec/model_tensors.h"

namespace gptrain {

/// Parameters of some tensors of a plan.
struct ParameterCounts {
    std::int64_t all = 0;
    std::int64_t frozen = 0;
    double active = 0;   ///< those that compute a token: each tensor's times its active share
    double trained = 0;  ///< of the active ones

    /// FLOPs of a token's forward, input gradient and weight gradient.
    double flops() const { return 4 * active + 2 * trained; }
};

/// The parameters of each layer.
std::vector<ParameterCounts> layer_parameters(const RunPlan& plan);

/// Number of parameters, with those of an adapter. Shared ones count once.
std::int64_t parameter_count(const ModelShape& model);
/// The number of them that compute a token: of a layer's experts only as many as a token uses.
std::int64_t active_parameters(const ModelShape& model);
/// The number of parameters that the plan freezes.
std::int64_t frozen_parameters(const RunPlan& plan);

/// FLOPs of one token's forward and backward: 6 x active parameters (4 x frozen ones, whose
/// gradients are not computed) + 6 L N D S for causal attention (scores and values of the visible
/// half only); in layers with a window W, 2 W - W^2 / S replaces S, and in a bidirectional model
/// 2 S does. Recomputation does not count.
double flops_per_token(const RunPlan& plan);
/// The part of these FLOPs in the attention of one layer.
double attention_flops_per_token(const ModelShape& model, std::int64_t layer,
                                 std::int64_t seq_length);
/// The part of these FLOPs for parameters that no GEMM reads: vectors and tables of embeddings.
double flops_outside_gemms(const RunPlan& plan);

/// FLOPs of a token in a layer of this kind, trained whole, with the window if there is one.
double layer_flops(const ModelShape& model, const LayerKind& kind, std::int64_t seq_length);
/// FLOPs of a token in the head.
double head_flops(const ModelShape& model);
/// FLOPs of the head divided by those of a mean layer, per token, the same in forward and backward.
double head_cost(const ModelShape& model, std::int64_t seq_length);

}  // namespace gptrain
