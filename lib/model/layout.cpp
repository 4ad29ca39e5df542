#include "model/layout.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <queue>
#include <utility>

namespace gptrain {
namespace {

// Groups are aligned to cache lines in every dtype; buckets are long enough to use a link's full
// bandwidth.
constexpr std::int64_t group_alignment = 64;
constexpr std::int64_t bucket_elements = 40'000'000;

/// How a tensor is split over tp.
enum class TpSplit {
    none,     ///< not split
    rows,     ///< dim 0
    columns,  ///< dim 1
    kv_rows,  ///< dim 0 by query groups, at least one per rank
};

struct Member {
    std::string name;
    Shape shape;  ///< shape of the whole tensor
    Initialisation init;
    TpSplit split = TpSplit::none;
    /// Each tp rank computes the part of the gradient that comes from its heads.
    bool by_heads = false;
};

struct Group {
    std::string name;
    std::vector<Member> members;
    bool fp8 = false;
    bool own_bucket = false;  ///< in a bucket of its own
    bool both_ends = false;   ///< the tied embedding, if its ends are on different stages
    bool is_copy = false;     ///< of a parameter that another stage owns
    /// Counted from the chunk's first one; empty for the embedding and the head.
    std::optional<std::size_t> layer = {};
};

/// Lists the groups of a part in the model's order.
class GroupList {
public:
    GroupList(const LayoutRequest& request) : model_(request.model), request_(request) {}

    std::vector<Group> of(const ChunkPart& part) {
        groups_.clear();
        if (part.embedding) {
            token_embedding(false);
            if (model_.position_embedding == PositionEmbedding::learned) {
                add("wpe.weight", {model_.max_positions, model_.hidden}, drawn());
            }
        }
        for (std::int64_t i = 0; i < part.num_layers; ++i) {
            const auto begin = std::ssize(groups_);
            block(part.first_layer + i);
            for (auto group = groups_.begin() + begin; group != groups_.end(); ++group)
                group->layer = static_cast<std::size_t>(i);
        }
        if (part.head) {
            norm("ln_f");
            if (!model_.tie_embeddings) {
                add("head.weight", {model_.vocab, model_.hidden}, drawn(), TpSplit::rows);
                groups_.back().own_bucket = request_.defers_head;
            } else if (request_.split_tied_embedding) {
                token_embedding(true);
            }
        }
        return std::move(groups_);
    }

private:
    Initialisation drawn() const { return {.std = model_.init_std}; }
    /// Projections onto the residual stream start smaller so that its variance does not grow with
    /// depth (GPT-2).
    Initialisation projection() const {
        return {.std = model_.init_std / std::sqrt(2.0 * static_cast<double>(model_.layers))};
    }

    void add(const std::string& name, const Shape& shape, Initialisation init,
             TpSplit split = TpSplit::none) {
        groups_.push_back({name, {{name, shape, init, split}}});
    }

    /// With tied ends its gradient is summed over both pipeline ends, which must own equal ranges:
    /// it gets a bucket of its own.
    void token_embedding(bool is_copy) {
        add("wte.weight", {model_.vocab, model_.hidden}, drawn(), TpSplit::rows);
        groups_.back().own_bucket = request_.split_tied_embedding;
        groups_.back().both_ends = request_.split_tied_embedding;
        groups_.back().is_copy = is_copy;
    }

    void norm(const std::string& name) {
        add(name + ".weight", {model_.hidden}, {.constant = 1});
        if (model_.bias && model_.normalization == Normalization::layernorm) {
            add(name + ".bias", {model_.hidden}, {});
        }
    }

    /// Rows of a linear layer's stacked matrix.
    struct Rows {
        std::string name;
        std::int64_t outputs;
        TpSplit split;
    };
    /// A linear layer of the current block that stacks `rows`.
    void linear(const std::string& group, const std::vector<Rows>& rows, std::int64_t inputs,
                Initialisation init, bool with_bias) {
        const bool inner = layer_ > 0 && layer_ < model_.layers - 1;
        Group weight{group + ".weight", {}, request_.fp8 && inner};
        Group bias{group + ".bias", {}};
        for (const auto& [name, outputs, split] : rows) {
            weight.members.push_back({name + ".weight", {outputs, inputs}, init, split});
            // A row-parallel layer adds its bias after the sum, unsplit.
            const TpSplit bias_split = split == TpSplit::columns ? TpSplit::none : split;
            bias.members.push_back({name + ".bias", {outputs}, {}, bias_split});
        }
        groups_.push_back(std::move(weight));
        if (with_bias) groups_.push_back(std::move(bias));
    }

    /// The norm of each head of q or k.
    void head_norm(const std::string& name) {
        add(name + ".weight", {model_.head_dim}, {.constant = 1});
        groups_.back().members.back().by_heads = true;
    }

    void block(std::int64_t layer) {
        layer_ = layer;
        const std::string at = text("h.", layer, ".");
        const std::int64_t q_rows = model_.heads * model_.head_dim;
        const std::int64_t kv_rows = model_.groups * model_.head_dim;
        norm(at + "ln_1");
        linear(at + "attn.qkv",
               {{at + "attn.q", q_rows, TpSplit::rows},
                {at + "attn.k", kv_rows, TpSplit::kv_rows},
                {at + "attn.v", kv_rows, TpSplit::kv_rows}},
               model_.hidden, drawn(), model_.qkv_bias);
        if (model_.qk_norm) {
            head_norm(at + "attn.q_norm");
            head_norm(at + "attn.k_norm");
        }
        linear(at + "attn.proj", {{at + "attn.proj", model_.hidden, TpSplit::columns}}, q_rows,
               projection(), model_.bias);
        norm(at + "ln_2");
        std::vector<Rows> inner = {{at + "mlp.fc", model_.ffn, TpSplit::rows}};
        if (gated(model_.activation)) inner.push_back({at + "mlp.gate", model_.ffn, TpSplit::rows});
        linear(at + "mlp.fc_gate", inner, model_.hidden, drawn(), model_.bias);
        linear(at + "mlp.proj", {{at + "mlp.proj", model_.hidden, TpSplit::columns}}, model_.ffn,
               projection(), model_.bias);
    }

    const ModelShape& model_;
    const LayoutRequest& request_;
    std::int64_t layer_ = 0;
    std::vector<Group> groups_;
};

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
    return {begin, std::min(length, size - begin), length};
}

/// Places a rank's groups in its flat buffers.
class LayoutBuilder {
public:
    LayoutBuilder(const LayoutRequest& request, ParameterLayout& layout)
        : request_(request), layout_(layout) {}

    void chunk(const ChunkPart& part, const std::vector<Group>& groups) {
        ChunkRange range;
        range.begin = range.after_head = end_;
        std::size_t open =
            static_cast<std::size_t>(part.num_layers);  // layers from here on are done
        range.blocks.resize(open);
        for (auto group = groups.rbegin(); group != groups.rend(); ++group) {
            if (group->layer && *group->layer < open) range.blocks[--open] = {end_, end_};
            if (!trained(*group)) {
                frozen_.push_back(*group);
                continue;
            }
            const FlatRange placed = place_in_bucket(*group);
            if (!group->layer && open == range.blocks.size() && group->own_bucket)
                range.after_head = end_;
            if (group->layer) extend(range.blocks[open], placed);
        }
        close_bucket();
        range.end = end_;
        layout_.chunks.push_back(std::move(range));
        layout_.trained = layout_.elements = end_;
    }

    /// Places the frozen groups of all chunks. Call it last.
    void frozen() {
        for (const Group& group : frozen_)
            place(group);
        layout_.elements = end_;
    }

private:
    std::int64_t sharers() const {
        return std::max<std::int64_t>(request_.tensor / request_.model.groups, 1);
    }

    /// Groups are frozen whole (check_frozen).
    bool trained(const Group& group) const {
        return request_.rules.trains(group.members.front().name);
    }

    static void extend(FlatRange& range, const FlatRange& placed) {
        if (range.begin == range.end) range.begin = placed.begin;
        range.end = placed.end;
    }

    FlatRange place_in_bucket(const Group& group) {
        const bool whole = request_.whole_parameters && group.layer.has_value();
        if (group.own_bucket || whole != whole_) close_bucket();
        whole_ = whole;
        const FlatRange placed = place(group);
        const bool full = !request_.whole_chunks && end_ - bucket_begin_ >= bucket_elements;
        if (group.own_bucket || full) close_bucket();
        return placed;
    }

    void close_bucket() {
        if (end_ == bucket_begin_) return;
        end_ = round_up(end_, group_alignment * request_.shards);
        layout_.buckets.push_back({{bucket_begin_, end_}, whole_});
        bucket_begin_ = end_;
    }

    GradSum sum_of(const Member& member, bool both_ends) const {
        if (both_ends) return GradSum::embedding_ends;
        if (member.by_heads) return GradSum::tp;
        if (member.split == TpSplit::none && request_.sequence_parallel) return GradSum::tp;
        if (member.split == TpSplit::kv_rows && sharers() > 1) return GradSum::kv;
        return GradSum::none;
    }

    /// This rank's box of a tensor; `in_memory` is its shape with padding.
    Shard shard_of(const Member& member, Shape& in_memory) const {
        Shard shard = Shard::whole(member.name, member.shape);
        in_memory = member.shape;
        std::int64_t rank = request_.tensor_rank;
        std::int64_t ranks = request_.tensor;
        if (member.split == TpSplit::none) {
            shard.owned = rank == 0;
            return shard;
        }
        if (member.split == TpSplit::kv_rows) {
            shard.owned = rank % sharers() == 0;
            rank /= sharers();
            ranks /= sharers();
        }
        const int dim = member.split == TpSplit::columns ? 1 : 0;
        const Part part = part_of(member.shape[dim], ranks, rank);
        shard.box.offset[dim] = part.begin;
        shard.box.extent[dim] = part.valid;
        shard.flat_end = shard.box.extent.elements();
        in_memory[dim] = part.length;
        return shard;
    }

    /// Places the members of a group contiguously.
    FlatRange place(const Group& group) {
        end_ = round_up(end_, group_alignment);
        ParameterGroup placed = {.name = group.name,
                                 .shape = {},
                                 .begin = end_,
                                 .trained = trained(group),
                                 .fp8 = group.fp8,
                                 .fp8_begin = end_};
        for (const Member& member : group.members) {
            Shape in_memory;
            Shard shard = shard_of(member, in_memory);
            if (group.is_copy) shard.owned = false;
            if (placed.shape.rank() == 0) {
                placed.shape = shard.box.extent;
            } else {
                placed.shape[0] += shard.box.extent[0];
            }
            layout_.parameters.push_back(
                {.shard = std::move(shard),
                 .init = member.init,
                 .begin = end_,
                 .sum = sum_of(member, group.both_ends),
                 .update = request_.rules.update(member.name, member.shape.rank())});
            end_ += in_memory.elements();
        }
        const FlatRange range = {placed.begin, end_};
        if (group.fp8 && !placed.trained) {
            placed.fp8_begin = round_up(end_, group_alignment);
            end_ = placed.fp8_begin + placed.shape.elements();
        }
        layout_.groups.push_back(std::move(placed));
        return range;
    }

    const LayoutRequest& request_;
    ParameterLayout& layout_;
    std::vector<Group> frozen_;
    std::int64_t end_ = 0;
    std::int64_t bucket_begin_ = 0;
    bool whole_ = false;  ///< of the open bucket
};

/// The matrices of a bucket, and the vectors that go with each of them.
struct Share {
    std::int64_t elements = 0;
    std::vector<Parameter*> parameters;
};

/// Each matrix of whole-parameter buckets with the vectors before it, and the last one with those
/// after it, too: few messages distribute new weights.
std::vector<Share> shares_of(ParameterLayout& layout) {
    std::vector<Share> shares;
    auto parameter = layout.parameters.begin();
    for (const Bucket& bucket : layout.buckets) {
        const std::size_t first = shares.size();
        bool open = false;
        for (; parameter != layout.parameters.end() && parameter->begin < bucket.end; ++parameter) {
            if (!bucket.whole) continue;
            if (!open) shares.emplace_back();
            shares.back().parameters.push_back(&*parameter);
            shares.back().elements += parameter->shard.elements();
            open = !parameter->decays();
        }
        if (!open || shares.size() < first + 2) continue;
        const Share rest = std::move(shares.back());
        shares.pop_back();
        shares.back().elements += rest.elements;
        shares.back().parameters.insert(shares.back().parameters.end(), rest.parameters.begin(),
                                        rest.parameters.end());
    }
    return shares;
}

/// Gives the largest share first to whoever has the least. Sizes, and so owners, are the same on
/// all ranks of tp.
void assign_owners(ParameterLayout& layout, std::int64_t ranks) {
    std::vector<Share> shares = shares_of(layout);
    std::stable_sort(shares.begin(), shares.end(),
                     [](const Share& a, const Share& b) { return a.elements > b.elements; });
    using Load = std::pair<std::int64_t, int>;  // elements, rank
    std::priority_queue<Load, std::vector<Load>, std::greater<>> loads;
    for (int rank = 0; rank < ranks; ++rank)
        loads.emplace(0, rank);
    for (const Share& share : shares) {
        const auto [elements, rank] = loads.top();
        loads.pop();
        for (Parameter* parameter : share.parameters)
            parameter->owner = rank;
        loads.emplace(elements + share.elements, rank);
    }
}

}  // namespace

ParameterLayout make_layout(const LayoutRequest& request) {
    ParameterLayout layout;
    GroupList groups(request);
    LayoutBuilder builder(request, layout);
    for (auto part = request.chunks.rbegin(); part != request.chunks.rend(); ++part)
        builder.chunk(*part, groups.of(*part));
    builder.frozen();
    if (request.whole_parameters) assign_owners(layout, request.shards);
    std::reverse(layout.chunks.begin(), layout.chunks.end());
    return layout;
}

}  // namespace gptrain
