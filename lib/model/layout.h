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

/// Over which ranks the gradients of a parameter are summed beside dp and cp: those that hold it
/// too and have each only a part of its gradient.
enum class GradSum {
    none,
    tp,    ///< sequence parallelism: each rank has gone through its slice of the sequence
    kv,    ///< k and v of heads that several tp ranks share: each has its own queries' part
    ends,  ///< the tied embedding: the first stage has the embedding's part, the last the head's
};

/// One named tensor of the model on this rank.
struct Parameter {
    Shard shard;
    Initialisation start;
    std::int64_t begin = 0;  ///< its first element in the flat buffers
    GradSum sum = GradSum::none;
    /// Tensors of two dims decay, biases and norms do not.
    bool decays() const { return shard.global.rank() == 2; }
    std::int64_t end() const { return begin + shard.elements(); }
};

/// Parameters that one product (or one bias addition) uses as a single tensor: stacked along dim 0,
/// side by side in memory. Most groups have one member; "h.i.attn.qkv" stacks q, k, v and
/// "h.i.mlp.fc_gate" stacks fc, gate.
struct ProductGroup {
    std::string name;  ///< such as "h.0.attn.qkv.weight"
    Shape shape;       ///< of this rank's rows and columns, without padding
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
/// the members of a group in their order, without gaps inside a group. All ranks of tp have the
/// same one: rows of the vocabulary that a rank lacks are padding, which is never drawn, updated or
/// counted. A bucket holds groups of one chunk.
struct ParameterLayout {
    std::vector<Parameter> parameters;
    std::vector<ProductGroup> groups;
    std::vector<Bucket> buckets;
    std::vector<Bucket> chunks;  ///< the flat range of each chunk
    std::int64_t elements = 0;   ///< length of the flat buffers
};

/// What decides a rank's layout.
struct LayoutRequest {
    const ModelShape& model;       ///< whole
    std::vector<ChunkPart> parts;  ///< of this rank, in the model's order
    std::int64_t tensor = 1;       ///< ranks of tp
    std::int64_t tensor_rank = 0;
    bool sequence_parallel = false;
    bool tied_ends = false;   ///< the embedding is tied, and its ends lie on different stages
    std::int64_t shards = 1;  ///< parts into which every bucket can be cut: dp x cp, or 1
    bool float8 = false;      ///< all blocks of the model but the first and the last: in 8 bits
};

ParameterLayout make_layout(const LayoutRequest& request);

}  // namespace gptrain
