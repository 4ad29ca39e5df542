// The parameters of this rank's part of the model, and their places in the flat buffers of weights
// and gradients.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/mesh.h"
#include "spec/run_plan.h"
#include "tensor/shard.h"

namespace gptrain {

/// Initial values: N(0, std), or `constant` if std is 0.
struct Initialisation {
    double std = 0;
    float constant = 0;
};

/// Ranks over which a parameter's gradient is summed, besides dp x cp: each of them holds the
/// parameter but computes only part of its gradient.
enum class GradSum {
    none,
    tp,  ///< each rank's gradient covers its slice of the sequence (sequence parallelism), or its
         ///< heads (norms of q and k)
    kv,  ///< k and v of heads that several tp ranks share: each rank's gradient covers its own
         ///< queries
    embedding_ends,  ///< the tied embedding: the first stage has the embedding's part, the last the
                     ///< head's
};

/// One named tensor of the model on this rank.
struct Parameter {
    Shard shard;
    Initialisation init;
    std::int64_t begin = 0;  ///< first element in the flat buffers
    GradSum sum = GradSum::none;
    /// Weight decay applies to tensors of two dims, not to biases and norms.
    bool decays() const { return shard.global.rank() == 2; }
    std::int64_t end() const { return begin + shard.elements(); }
};

/// Parameters that one GEMM (or one bias addition) uses as a single tensor: stacked along dim 0 and
/// contiguous in memory. Most groups have one member; "h.i.attn.qkv" stacks q, k, v, and
/// "h.i.mlp.fc_gate" stacks fc, gate.
struct ParameterGroup {
    std::string name;  ///< such as "h.0.attn.qkv.weight"
    Shape shape;       ///< this rank's rows and columns, without padding
    std::int64_t begin = 0;
    bool fp8 = false;  ///< multiplied in FP8
};

/// A range of the flat buffers.
struct FlatRange {
    std::int64_t begin = 0;
    std::int64_t end = 0;
};

/// The part of the model that a chunk holds.
struct ChunkPart {
    std::int64_t first_layer = 0;
    std::int64_t num_layers = 0;
    bool embedding = true;  ///< includes the embedding
    bool head = true;       ///< includes the head
};

/// The flat order is the model's order reversed, in which backward finishes gradients. Members of a
/// group keep their order, without gaps. All tp ranks have the same layout: vocabulary rows that a
/// rank lacks are padding, which is never initialised, updated or counted.
struct ParameterLayout {
    std::vector<Parameter> parameters;
    std::vector<ParameterGroup> groups;
    /// Their gradients are reduced together. A bucket holds groups of one chunk and divides evenly
    /// among the ranks that share it.
    std::vector<FlatRange> buckets;
    std::vector<FlatRange> chunks;
    std::int64_t elements = 0;  ///< length of each flat buffer
};

/// What determines a rank's layout.
struct LayoutRequest {
    const ModelShape& model;        ///< the whole model
    std::vector<ChunkPart> chunks;  ///< this rank's, in the model's order
    std::int64_t tensor = 1;        ///< size of tp
    std::int64_t tensor_rank = 0;
    bool sequence_parallel = false;
    bool split_tied_embedding = false;  ///< tied embeddings with both ends on different stages
    std::int64_t shards = 1;            ///< each bucket is divisible by this: dp x cp, or 1
    bool whole_chunks = false;          ///< one bucket for each chunk
    bool defers_head = false;           ///< the head's weight has a bucket of its own, ready last
    bool fp8 = false;                   ///< FP8 in all blocks except the model's first and last
};

ParameterLayout make_layout(const LayoutRequest& request);

}  // namespace gptrain
