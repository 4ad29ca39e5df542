// The tensors of a model: their names, sizes and groups, as in docs/checkpoints.md.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/text.h"
#include "spec/run_plan.h"

namespace gptrain {

/// Initial values: N(0, std), or `constant` if std is 0.
struct Initialisation {
    double std = 0;
    float constant = 0;
};

/// How tp splits a tensor.
enum class TensorSplit {
    none,     ///< not split
    rows,     ///< dim 0
    columns,  ///< dim 1
    kv_rows,  ///< dim 0 by query groups, at least one per rank
};

/// A tensor of the whole model: a matrix, or a vector if `columns` is 0.
struct ModelTensor {
    std::string name;
    std::int64_t rows = 0;
    std::int64_t columns = 0;
    Initialisation init = {};
    TensorSplit split = TensorSplit::none;
    /// Each rank of tp computes only a part of the gradient of what it holds.
    bool partial_gradient = false;
    std::int64_t elements() const { return columns == 0 ? rows : rows * columns; }
};

/// Tensors that one GEMM or one addition of a bias reads together, stacked along dim 0: (q, k, v),
/// (fc, gate); every other one is alone.
struct TensorGroup {
    std::string name;  ///< such as "h.0.attn.qkv.weight"
    std::vector<ModelTensor> tensors;
    bool linear = false;  ///< the matrix of a block's linear layer
};

/// A block. The names of its tensors begin with `name` and a dot.
struct BlockId {
    std::int64_t layer = 0;  ///< decides its dropout masks and its attention window
    std::string name = text("h.", layer);
};

/// The groups of one block, of those before the first and of those after the last one, in the
/// model's order. A tied head has no tensor.
std::vector<TensorGroup> layer_tensors(const ModelShape& model, const BlockId& block);
std::vector<TensorGroup> embedding_tensors(const ModelShape& model);
std::vector<TensorGroup> head_tensors(const ModelShape& model);

/// The parameters of a layer that the plan freezes.
std::int64_t frozen_in_layer(const RunPlan& plan, std::int64_t layer);
/// All parameters that the plan freezes.
std::int64_t frozen_parameters(const RunPlan& plan);
/// FLOPs of one token's forward and backward (run_plan.h). The gradients of frozen parameters are
/// not computed: 4 FLOPs of each instead of 6.
double flops_per_token(const RunPlan& plan);
/// The part of these FLOPs for parameters that no GEMM reads: vectors and tables of embeddings.
double flops_outside_gemms(const RunPlan& plan);
/// The name of the matrix that makes logits.
std::string_view head_matrix(const ModelShape& model);

/// Error (usage) that names training.frozen unless every pattern matches a tensor, groups are
/// frozen whole or not at all, and something is trained.
void check_frozen(const RunPlan& plan);

}  // namespace gptrain
