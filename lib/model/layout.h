// The parameters of this rank's part of the model, and their places in the flat buffers of weights
// and gradients.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "comm/mesh.h"
#include "spec/model_tensors.h"
#include "tensor/shard.h"

namespace gptrain {

/// The ranks that hold the same parameters, each for its own samples and slices of sequences.
struct Sharing {
    Axis sums = Axis::dp_cp;  ///< gradients are summed over this axis
    /// Each rank of this axis, which is `sums` or a part of it, updates a part of the parameters;
    /// empty: every rank updates all of them.
    std::optional<Axis> owners = {};
    /// The ranks of `sums` that update the same part, one of each group of owners, if gradients are
    /// summed in two steps: first to the owners of a group, then over this axis.
    std::optional<Axis> copies = {};
    bool operator==(const Sharing&) const = default;
};

/// Formats of fewer bits in which matrices of linear layers can be kept.
enum class QuantisedFormat {
    none,
    int8,        ///< Int8Matrix
    nf4,         ///< Nf4Matrix
    nf4_double,  ///< the same with nested scales
};
constexpr bool is_nf4(QuantisedFormat format) {
    return format == QuantisedFormat::nf4 || format == QuantisedFormat::nf4_double;
}

/// Where the quantised form of a matrix begins in the buffers of values (in NF4 of bytes of codes),
/// of their scales, and of the factors of nested scales.
struct QuantisedPlace {
    std::int64_t values = 0;
    std::int64_t scales = 0;
    std::int64_t factors = 0;
};

/// The forms in which a parameter or a group of them is kept, and where each begins.
struct Storage {
    std::int64_t begin = 0;        ///< of its values and its gradient, in the flat order
    bool in_compute_dtype = true;  ///< false: it has its quantised form only, and no values
    /// The start of its group's FP8 form, which replaces the values unless they are frozen and not
    /// divided: then the rank has both.
    std::optional<std::int64_t> fp8 = {};
    /// The start of its group's scales for blocks, in a separate buffer.
    std::optional<std::int64_t> fp8_scales = {};
    std::optional<QuantisedPlace> quantised = {};
    /// The first weight gradient of a step overwrites its gradient, which no step clears.
    bool overwritten = false;
};

/// A range of the flat order of parameters.
struct FlatRange {
    std::int64_t begin = 0;
    std::int64_t end = 0;
    std::int64_t elements() const { return end - begin; }
};

/// One named tensor of the model on this rank.
struct Parameter {
    Shard shard;
    Initialisation init;
    Storage storage;
    Sharing sharing;
    /// The axis over which its gradient is summed besides `sharing.sums`, because each rank
    /// computes only a part of it: tp, where that covers the rank's slice of the sequence (sequence
    /// parallelism) or its heads (norms of q and k); kv, where it covers the rank's queries;
    /// embedding_ends, where the first stage has the part of a tied embedding, the last the head's.
    std::optional<Axis> also_sums = {};
    Update update = Update::adamw;
    bool matrix = false;  ///< or one for each expert; not a bias or a norm
    /// The rank of `sharing.owners` that updates it, in a bucket of whole parameters.
    int owner = 0;
    bool trained() const { return update != Update::frozen; }
    /// Weight decay applies to matrices only.
    bool decays() const { return matrix; }
    std::int64_t begin() const { return storage.begin; }
    std::int64_t end() const { return begin() + shard.elements(); }
    FlatRange range() const { return {begin(), end()}; }
};

/// Rows of a parameter group.
struct GroupRows {
    std::string parameter;   ///< without the last part of its name: "h.0.attn.q"
    std::int64_t count = 0;  ///< on this rank
};

/// Parameters that one GEMM (or one bias addition) uses as a single tensor: stacked along dim 0 and
/// contiguous in memory. Most groups have one member; "h.i.attn.qkv" stacks q, k, v, and
/// "h.i.mlp.fc_gate" stacks fc, gate.
struct ParameterGroup {
    std::string name;  ///< such as "h.0.attn.qkv.weight"
    /// This rank's rows and columns, without padding; of E experts [P, E, rows, columns], or
    /// [P, E, rows] for biases, with P members.
    Shape shape;
    std::vector<GroupRows> rows;
    Storage storage;
    Sharing sharing;
    bool trained = true;
    FlatRange range() const { return {storage.begin, storage.begin + shape.elements()}; }
};

/// Parameters whose gradients are reduced together. Their updates are divided among their owners:
/// evenly, wherever that cuts parameters, or by whole parameters (Parameter::owner).
struct Bucket : FlatRange {
    Sharing sharing;
    bool whole = false;
    std::size_t unit = 0;  ///< (ChunkRange), with LayoutRequest::by_units
    bool fp8 = false;      ///< one FP8 group, which is gathered in FP8
};

/// Where the trained parameters of a chunk are. A part without any is an empty range at its place.
struct ChunkRange : FlatRange {
    std::int64_t after_head = 0;    ///< the first position after the head's weight
    std::vector<FlatRange> blocks;  ///< those of each layer, in the model's order
    /// Units are parts of the model whose gradients are summed, or whose weights are gathered, at a
    /// time: the head's matrix and bias, the blocks, of which the last has the final norm, and the
    /// embedding. All chunks together number them in the flat order; a unit may be empty.
    std::size_t first_unit = 0;
    std::size_t units() const { return blocks.size() + 2; }
    std::size_t head_unit() const { return first_unit; }
    std::size_t block_unit(std::size_t layer) const { return first_unit + blocks.size() - layer; }
    std::size_t embedding_unit() const { return first_unit + blocks.size() + 1; }
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
/// rank lacks are padding, which is never initialised, updated or counted. Frozen parameters come
/// after all others: only the buffer of weights holds them. The balances of routers
/// (ModelTensor::balance) come last, in a separate fp32 buffer.
struct ParameterLayout {
    std::vector<Parameter> parameters;
    std::vector<ParameterGroup> groups;
    /// A bucket holds groups of one chunk and one sharing, and divides evenly among its owners.
    std::vector<Bucket> buckets;
    /// The same of frozen parameters but the balances, with LayoutRequest::divides_frozen; their
    /// owners keep their parts.
    std::vector<Bucket> frozen_buckets;
    std::vector<ChunkRange> chunks;
    bool head_adds_to_embedding = false;  ///< F adds to the gradient of a tied embedding
    std::int64_t trained = 0;             ///< length of the flat buffer of gradients
    std::int64_t elements = 0;            ///< length of the flat buffer of weights
    std::int64_t balances = 0;  ///< length of the buffer of balances, at positions from elements on
    std::int64_t fp8_scales = 0;  ///< length of the buffer of scales for blocks
    QuantisedFormat format = QuantisedFormat::none;
    QuantisedPlace quantised_end;  ///< lengths of the buffers of quantised forms
};

/// Which matrices of linear layers are kept in a format of fewer bits.
struct Quantised {
    QuantisedFormat format = QuantisedFormat::none;
    /// All of them, and with int8 a copy of the head's; false: those that are not trained.
    bool inference = false;
};

/// Everything that a rank's layout depends on.
struct LayoutRequest {
    const ModelShape& model;        ///< the whole model
    std::vector<ChunkPart> chunks;  ///< this rank's, in the model's order
    MeshShape mesh = {};
    std::int64_t tensor_rank = 0;  ///< on tp
    std::int64_t expert_rank = 0;  ///< on experts
    bool sequence_parallel = false;
    bool split_tied_embedding = false;  ///< tied embeddings with both ends on different stages
    /// The sharing of a group's parameters.
    std::function<Sharing(const TensorGroup&)> sharing = [](const TensorGroup&) {
        return Sharing();
    };
    /// Each bucket divides evenly among all ranks that sum its gradients, not only among its
    /// owners.
    bool divides_sums = false;
    /// Groups and the parts of buckets begin at multiples of it.
    std::int64_t alignment = 64;
    /// Parameters of blocks belong whole to one of several owners, as equally as possible.
    bool whole_parameters = false;
    bool whole_chunks = false;    ///< one bucket for each chunk
    bool by_units = false;        ///< buckets for each unit (ChunkRange)
    bool divides_frozen = false;  ///< with by_units: frozen parameters have buckets, too
    bool defers_head = false;     ///< the head's weight has a separate bucket, ready last
    bool fp8 = false;             ///< FP8 in all blocks except the model's first and last
    bool fp8_blocks = false;      ///< with fp8: scales for blocks of a matrix, else for all of it
    /// Divided FP8 groups have a bucket each, with Bucket::fp8; not whole parameters.
    bool gathers_fp8 = false;
    Quantised quantised = {};
    ParameterRules rules = {};  ///< which parameters are trained, and how
    /// The first weight gradient of a step overwrites the gradients of trained linear layers, and
    /// of the head's weight unless some are deferred.
    bool overwrites_gradients = true;
};

ParameterLayout make_layout(const LayoutRequest& request);

/// Sets Parameter::owner in buckets of whole parameters (whole_owners.cpp), as make_layout does.
/// Greedy: assigns the largest share first, always to the owner with the fewest elements. Sizes,
/// and so owners, are the same on all ranks of tp.
void assign_owners(ParameterLayout& layout, const MeshShape& mesh);

}  // namespace gptrain
