#include "model/layout.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "backend/value_ops.h"
#include "model/nf4_part.h"

namespace gptrain {
namespace {

// Int8 forms are aligned to cache lines; buckets are long enough to use a link's full bandwidth.
constexpr std::int64_t group_alignment = 64;
constexpr std::int64_t bucket_elements = 40'000'000;

/// A group in a rank's part of the model.
struct Group : TensorGroup {
    bool fp8 = false;
    bool own_bucket = false;  ///< alone in its bucket
    bool both_ends = false;   ///< the tied embedding, if its ends are on different stages
    bool is_copy = false;     ///< of a parameter that another stage owns
    /// Counted from the chunk's first one; empty for the embedding and the head.
    std::optional<std::size_t> layer = {};
    std::size_t unit = 0;  ///< counted from the chunk's first one, then from the first of all
};

/// The scales for blocks of a matrix in FP8, by rows and by columns.
std::int64_t fp8_scale_count(const Shape& shape) {
    return fp8_block_scales(shape[0], shape[1]).elements() +
           fp8_block_scales(shape[1], shape[0]).elements();
}

/// With tied ends its gradient is summed over both pipeline ends, which must own equal ranges: it
/// gets a separate bucket.
void mark_tied_end(Group& token_embedding, bool is_copy) {
    token_embedding.own_bucket = true;
    token_embedding.both_ends = true;
    token_embedding.is_copy = is_copy;
}

std::vector<Group> embedding_groups(const LayoutRequest& request) {
    std::vector<Group> groups;
    for (TensorGroup& group : embedding_tensors(request.model))
        groups.push_back({std::move(group)});
    if (request.split_tied_embedding) mark_tied_end(groups.front(), false);
    return groups;
}

std::vector<Group> head_groups(const LayoutRequest& request) {
    const ModelShape& model = request.model;
    std::vector<Group> groups;
    for (TensorGroup& group : head_tensors(model))
        groups.push_back({std::move(group)});
    if (!model.tie_embeddings) {
        groups.back().own_bucket = request.defers_head;
    } else if (request.split_tied_embedding) {
        groups.push_back({std::move(embedding_tensors(model).front())});
        mark_tied_end(groups.back(), true);
    }
    return groups;
}

/// The groups of a part in the model's order.
std::vector<Group> groups_of(const LayoutRequest& request, const ChunkPart& part) {
    const auto layers = static_cast<std::size_t>(part.num_layers);
    std::vector<Group> groups;
    if (part.embedding) groups = embedding_groups(request);
    for (Group& group : groups)
        group.unit = layers + 1;
    for (std::int64_t i = 0; i < part.num_layers; ++i) {
        const std::int64_t layer = part.first_layer + i;
        const bool fp8 = request.fp8 && layer > 0 && layer < request.model.layers - 1;
        for (TensorGroup& group : layer_tensors(request.model, {layer})) {
            groups.push_back({std::move(group)});
            groups.back().fp8 = fp8 && groups.back().linear && !groups.back().of_experts();
            groups.back().layer = static_cast<std::size_t>(i);
            groups.back().unit = layers - *groups.back().layer;
        }
    }
    if (part.head) {
        std::vector<Group> last = head_groups(request);
        for (Group& group : last)
            group.unit = group.name.starts_with("ln_f.") ? 1 : 0;
        std::move(last.begin(), last.end(), std::back_inserter(groups));
    }
    return groups;
}

/// A rank's part of a dim: `length` indices from `begin` on, of which `valid` exist and the rest is
/// padding.
struct Part {
    std::int64_t begin;
    std::int64_t valid;
    std::int64_t length;
};

Part part_of(std::int64_t size, std::int64_t ranks, std::int64_t rank) {
    const std::int64_t length = div_ceil(size, ranks);
    const std::int64_t begin = std::min(rank * length, size);
    return {.begin = begin, .valid = std::min(length, size - begin), .length = length};
}

Shape whole_shape(const ModelTensor& tensor) {
    Shape shape;
    if (tensor.experts > 0) shape.push_back(tensor.experts);
    shape.push_back(tensor.rows);
    if (tensor.columns > 0) shape.push_back(tensor.columns);
    return shape;
}

/// Places a rank's groups in its flat buffers.
class LayoutBuilder {
public:
    LayoutBuilder(const LayoutRequest& request, ParameterLayout& layout)
        : request_(request), layout_(layout) {}

    void add_chunk(const ChunkPart& part, const std::vector<Group>& groups) {
        ChunkRange range;
        range.begin = range.after_head = end_;
        range.first_unit = units_;
        std::size_t open =
            static_cast<std::size_t>(part.num_layers);  // layers from here on are done
        range.blocks.resize(open);
        for (auto group = groups.rbegin(); group != groups.rend(); ++group) {
            unit_ = units_ + group->unit;
            if (group->layer && *group->layer < open) range.blocks[--open] = {end_, end_};
            if (!trained(*group)) {
                Group& kept = (group->balance() ? balances_ : frozen_).emplace_back(*group);
                kept.unit = unit_;
                continue;
            }
            const bool whole = request_.whole_parameters && group->layer.has_value() &&
                               owners_of(request_.sharing(*group)) > 1;
            const FlatRange placed = place_in_bucket(*group, whole, layout_.buckets);
            if (!group->layer && open == range.blocks.size() && group->own_bucket)
                range.after_head = end_;
            if (group->layer) extend(range.blocks[open], placed);
        }
        close_bucket(layout_.buckets);
        range.end = end_;
        units_ += range.units();
        layout_.chunks.push_back(std::move(range));
        layout_.trained = layout_.elements = end_;
    }

    /// Places the frozen groups of all chunks, then the balances. Call it last.
    void add_frozen() {
        if (request_.divides_frozen) {
            for (const Group& group : frozen_) {
                unit_ = group.unit;
                place_in_bucket(group, false, layout_.frozen_buckets);
            }
            close_bucket(layout_.frozen_buckets);
        } else {
            for (const Group& group : frozen_)
                place(group);
        }
        layout_.elements = end_;
        for (const Group& group : balances_)
            place(group);
        layout_.balances = end_ - layout_.elements;
    }

private:
    /// Groups are frozen whole (check_frozen).
    bool trained(const Group& group) const {
        return !group.balance() && request_.rules.trains(group.tensors.front().name);
    }

    static void extend(FlatRange& range, const FlatRange& placed) {
        if (range.begin == range.end) range.begin = placed.begin;
        range.end = placed.end;
    }

    /// The ranks among which the updates of a bucket are divided.
    std::int64_t owners_of(const Sharing& sharing) const {
        return sharing.owners ? group_size(*sharing.owners, request_.mesh) : 1;
    }

    FlatRange place_in_bucket(const Group& group, bool whole, std::vector<Bucket>& buckets) {
        const bool fp8 = request_.gathers_fp8 && group.fp8 && !whole;
        const bool alone = group.own_bucket || fp8;
        if (alone) close_bucket(buckets);
        open_bucket(request_.sharing(group), whole, buckets);
        fp8_ = fp8;
        const FlatRange placed = place(group);
        const bool full =
            !request_.whole_chunks && !request_.by_units && end_ - bucket_begin_ >= bucket_elements;
        if (alone || full) close_bucket(buckets);
        return placed;
    }

    /// Closes the open bucket unless the next group belongs to it.
    void open_bucket(const Sharing& sharing, bool whole, std::vector<Bucket>& buckets) {
        const bool other_unit = request_.by_units && unit_ != bucket_unit_;
        if (other_unit || whole != whole_ || sharing != sharing_) close_bucket(buckets);
        whole_ = whole;
        sharing_ = sharing;
        bucket_unit_ = unit_;
    }

    void close_bucket(std::vector<Bucket>& buckets) {
        if (end_ == bucket_begin_) return;
        const std::int64_t parts =
            request_.divides_sums ? group_size(sharing_.sums, request_.mesh) : owners_of(sharing_);
        end_ = bucket_begin_ + round_up(end_ - bucket_begin_, request_.alignment * parts);
        buckets.push_back({{bucket_begin_, end_}, sharing_, whole_, bucket_unit_, fp8_});
        bucket_begin_ = end_;
    }

    std::optional<Axis> also_sums(const ModelTensor& tensor, bool both_ends) const {
        if (both_ends) return Axis::embedding_ends;
        if (tensor.partial_gradient) return Axis::tp;
        // Experts get all rows of the ranks of tp, and compute whole gradients of what they have.
        if (tensor.experts > 0) return std::nullopt;
        if (tensor.split == TensorSplit::none && request_.sequence_parallel) return Axis::tp;
        if (tensor.split == TensorSplit::kv_rows && request_.mesh.kv > 1) return Axis::kv;
        return std::nullopt;
    }

    /// This rank's box of a tensor; `in_memory` is its shape with padding.
    Shard shard_of(const ModelTensor& tensor, Shape& in_memory) const {
        in_memory = whole_shape(tensor);
        Shard shard = Shard::whole(tensor.name, in_memory);
        // Ranks that divide the experts have theirs whole.
        const bool divided = tensor.experts > 0 && request_.mesh.expert > 1;
        std::int64_t rank = divided ? request_.expert_rank : request_.tensor_rank;
        std::int64_t ranks = divided ? request_.mesh.expert : request_.mesh.tensor;
        if (!divided && tensor.split == TensorSplit::none) {
            shard.owned = rank == 0;
            return shard;
        }
        if (tensor.split == TensorSplit::kv_rows) {
            shard.owned = rank % request_.mesh.kv == 0;
            rank /= request_.mesh.kv;
            ranks /= request_.mesh.kv;
        }
        const int rows = tensor.experts > 0 && !divided ? 1 : 0;
        const int dim = tensor.split == TensorSplit::columns && !divided ? rows + 1 : rows;
        const Part part = part_of(in_memory[dim], ranks, rank);
        shard.box.offset[dim] = part.begin;
        shard.box.extent[dim] = part.valid;
        shard.flat_end = shard.box.extent.elements();
        in_memory[dim] = part.length;
        return shard;
    }

    /// The first forward of the head comes before anything adds to the gradient of a tied embedding
    /// on the same stage. If deferred, it comes last.
    bool overwritten_by_head(const Group& group) const {
        // In a window the embedding's part may come first: B of the microbatch before.
        if (request_.by_units && request_.model.tie_embeddings) return false;
        return group.name == head_matrix(request_.model) && !request_.defers_head &&
               std::any_of(request_.chunks.begin(), request_.chunks.end(),
                           [](const ChunkPart& part) { return part.head; });
    }

    bool is_quantised(const Group& group) const {
        const auto& [format, inference] = request_.quantised;
        if (format == QuantisedFormat::none) return false;
        if (group.linear) return inference || !trained(group);
        const bool head = group.name == head_matrix(request_.model);
        return inference && head && format == QuantisedFormat::int8;
    }

    void add_quantised(const Shard& shard, const Shape& in_memory) {
        QuantisedPlace& end = layout_.quantised_end;
        if (is_nf4(layout_.format)) {
            const Nf4Size size(shard, in_memory, layout_.format == QuantisedFormat::nf4_double);
            end = {end.values + size.codes, end.scales + size.scales, end.factors + size.factors};
            return;
        }
        const std::int64_t columns = in_memory[in_memory.rank() - 1];
        end.values += in_memory.elements();
        end.scales += in_memory.elements() / columns * Int8Matrix::blocks_of(columns);
    }

    /// Where the next group is kept.
    Storage storage_of(const Group& group) const {
        Storage storage = {.begin = end_};
        storage.overwritten = request_.overwrites_gradients && trained(group) &&
                              (group.linear || overwritten_by_head(group));
        if (group.fp8) storage.fp8 = end_;
        if (is_quantised(group)) {
            const QuantisedPlace& end = layout_.quantised_end;
            storage.quantised = {.values = round_up(end.values, group_alignment),
                                 .scales = round_up(end.scales, group_alignment),
                                 .factors = round_up(end.factors, group_alignment)};
            storage.in_compute_dtype = !group.linear;
        }
        return storage;
    }

    /// Places the tensors of a group contiguously.
    FlatRange place(const Group& group) {
        end_ = round_up(end_, request_.alignment);
        ParameterGroup placed = {.name = group.name,
                                 .shape = {},
                                 .rows = {},
                                 .storage = storage_of(group),
                                 .sharing = request_.sharing(group),
                                 .trained = trained(group)};
        if (placed.storage.quantised) layout_.quantised_end = *placed.storage.quantised;
        for (const ModelTensor& tensor : group.tensors)
            place_tensor(tensor, group, placed);
        const FlatRange range = {placed.storage.begin, end_};
        if (group.fp8 && !placed.trained && !request_.divides_frozen) place_fp8(placed);
        if (group.fp8 && request_.fp8_blocks) {
            placed.storage.fp8_scales = layout_.fp8_scales;
            layout_.fp8_scales += fp8_scale_count(placed.shape);
        }
        layout_.groups.push_back(std::move(placed));
        return range;
    }

    /// Places a tensor after the tensors of its group that are already placed.
    void place_tensor(const ModelTensor& tensor, const Group& group, ParameterGroup& placed) {
        Shape in_memory;
        Shard shard = shard_of(tensor, in_memory);
        if (group.is_copy) shard.owned = false;
        Shape member;
        if (group.of_experts()) member.push_back(1);
        for (const std::int64_t size : shard.box.extent)
            member.push_back(size);
        if (placed.shape.rank() == 0) {
            placed.shape = member;
        } else {
            placed.shape[0] += member[0];
        }
        Storage storage = placed.storage;
        storage.begin = end_;
        if (storage.quantised) {
            storage.quantised = layout_.quantised_end;
            add_quantised(shard, in_memory);
        }
        placed.rows.push_back({.parameter = tensor.name.substr(0, tensor.name.rfind('.')),
                               .count = shard.box.extent[0]});
        layout_.parameters.push_back(
            {.shard = std::move(shard),
             .init = tensor.init,
             .storage = storage,
             .sharing = placed.sharing,
             .also_sums = also_sums(tensor, group.both_ends),
             .update = tensor.balance ? Update::frozen
                                      : request_.rules.update(tensor.name, tensor.dims()),
             .matrix = tensor.columns > 0});
        if (storage.in_compute_dtype) end_ += in_memory.elements();
    }

    /// The FP8 form of a frozen group, which keeps its values too.
    void place_fp8(ParameterGroup& placed) {
        placed.storage.fp8 = round_up(end_, group_alignment);
        end_ = *placed.storage.fp8 + placed.shape.elements();
    }

    const LayoutRequest& request_;
    ParameterLayout& layout_;
    std::vector<Group> frozen_;
    std::vector<Group> balances_;
    std::int64_t end_ = 0;
    std::int64_t bucket_begin_ = 0;
    bool whole_ = false;  ///< of the open bucket, as are fp8, sharing and unit
    bool fp8_ = false;
    Sharing sharing_;
    std::size_t bucket_unit_ = 0;
    std::size_t unit_ = 0;   ///< of the next group
    std::size_t units_ = 0;  ///< of the chunks before
};

}  // namespace

ParameterLayout make_layout(const LayoutRequest& request) {
    ParameterLayout layout;
    layout.format = request.quantised.format;
    LayoutBuilder builder(request, layout);
    for (auto part = request.chunks.rbegin(); part != request.chunks.rend(); ++part)
        builder.add_chunk(*part, groups_of(request, *part));
    builder.add_frozen();
    assign_owners(layout, request.mesh);
    std::reverse(layout.chunks.begin(), layout.chunks.end());
    layout.head_adds_to_embedding = request.model.tie_embeddings;
    return layout;
}

}  // namespace gptrain
