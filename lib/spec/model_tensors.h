// The tensors of a model: their names, sizes and groups, as in docs/checkpoints.md.
#pragma once

#include <algorithm>
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
    rows,     ///< the rows
    columns,  ///< the columns
    kv_rows,  ///< the rows by query groups, at least one per rank
};

/// A tensor of the whole model: a matrix, a vector if `columns` is 0, or one of them for each
/// expert.
struct ModelTensor {
    std::string name;
    std::int64_t rows = 0;
    std::int64_t columns = 0;
    std::int64_t experts = 0;  ///< matrices or vectors; 0: the tensor has no dim for them
    Initialisation init = {};
    TensorSplit split = TensorSplit::none;
    /// Each rank of tp computes only a part of the gradient of what it holds.
    bool partial_gradient = false;
    /// The share of the elements that compute any one token: 1, unless only some of the
    /// microbatch's tokens use the tensor.
    double active = 1;
    /// The bias of a router's choice: not a parameter, but part of the model's state, in fp32. No
    /// gradient changes it.
    bool balance = false;
    /// 1 for a vector, those of experts included, 2 for a matrix, 3 for a matrix of each expert.
    int dims() const { return columns == 0 ? 1 : experts > 0 ? 3 : 2; }
    std::int64_t elements() const {
        return std::max<std::int64_t>(experts, 1) * rows * std::max<std::int64_t>(columns, 1);
    }
};

/// Tensors that one GEMM or one addition of a bias reads together, stacked along dim 0: (q, k, v),
/// (fc, gate); every other one is alone. Tensors of experts follow each other whole.
struct TensorGroup {
    std::string name;  ///< such as "h.0.attn.qkv.weight"
    std::vector<ModelTensor> tensors;
    bool linear = false;  ///< the matrix of a block's linear layer, or those of its experts
    bool of_experts() const { return tensors.front().experts > 0; }
    bool balance() const { return tensors.front().balance; }
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
/// All of them.
std::vector<TensorGroup> all_tensors(const ModelShape& model);

/// The name of the matrix that makes logits.
std::string_view head_matrix(const ModelShape& model);

/// Error (usage) that names training.frozen unless every pattern matches a tensor, groups are
/// frozen whole or not at all, and something is trained.
void check_frozen(const RunPlan& plan);

}  // namespace gptrain
