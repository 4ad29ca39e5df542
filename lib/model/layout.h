// Which parameters a part of the model has, and where they lie in the flat buffers of weights and
// gradients.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/mesh.h"
#include "spec/run_plan.h"
#include "tensor/shard.h"

namespace gptrain {

/// How a parameter starts: N(0, std), or a constant where std is 0.
struct Initialisation {
    double std = 0;
    float constant = 0;
};

/// One named tensor of the model on this rank.
struct Parameter {
    Shard shard;
    Initialisation start;
    std::int64_t begin = 0;  ///< its first element in the flat buffers
    /// Tensors of two dims decay, biases and norms do not.
    bool decays() const { return shard.global.rank() == 2; }
    std::int64_t end() const { return begin + shard.elements(); }
};

/// Parameters that one product (or one bias addition) uses as a single tensor: stacked along dim 0,
/// side by side in memory. Most groups have one member; "h.i.attn.qkv" stacks q, k, v and
/// "h.i.mlp.fc_gate" stacks fc, gate.
struct ProductGroup {
    std::string name;  ///< such as "h.0.attn.qkv.weight"
    Shape shape;
    std::int64_t begin = 0;
    bool float8 = false;  ///< multiplied in 8 bits
};

/// A range of the flat buffers whose gradients are reduced together. Every bucket divides evenly
/// among the ranks that share it.
struct Bucket {
    std::int64_t begin = 0;
    std::int64_t end = 0;
};

/// The layers and ends of the model that a chunk holds.
struct ChunkPart {
    std::int64_t first_layer = 0;
    std::int64_t num_layers = 0;
    bool embedding = true;  ///< begins the model
    bool head = true;       ///< ends the model
};

/// Groups lie in the order in which backward finishes their gradients (the model's order reversed),
/// the members of a group in their order, without gaps inside a group.
struct ParameterLayout {
    std::vector<Parameter> parameters;
    std::vector<ProductGroup> groups;
    std::vector<Bucket> buckets;
    std::int64_t elements = 0;  ///< length of the flat buffers
};

/// The layout of a part of the model. `shards` is the number of ranks among which a bucket is cut
/// (dp x cp with the optimizer sharded, else 1). With `float8` the matrices of all blocks of the
/// model but the first and the last are multiplied in 8 bits.
ParameterLayout make_layout(const ModelShape& model, const ChunkPart& part, std::int64_t shards,
                            bool float8 = false);

}  // namespace gptrain
