#include "model/layout.h"

#include <cmath>
#include <utility>

namespace gptrain {
namespace {

// Groups begin at cache lines in every dtype; buckets are as long as a link needs to reach its
// speed.
constexpr std::int64_t group_alignment = 64;
constexpr std::int64_t bucket_elements = 40'000'000;

struct Member {
    std::string name;
    Shape shape;
    Initialisation start;
};

struct Group {
    std::string name;
    std::vector<Member> members;
    bool float8 = false;
};

/// Lists the groups of a part in the model's order.
class GroupList {
public:
    GroupList(const ModelShape& model, bool float8) : model_(model), float8_(float8) {}

    std::vector<Group> of(const ChunkPart& part) {
        if (part.embedding) {
            add("wte.weight", {model_.vocab, model_.hidden}, drawn());
            if (model_.position_embedding == PositionEmbedding::learned) {
                add("wpe.weight", {model_.max_positions, model_.hidden}, drawn());
            }
        }
        for (std::int64_t i = 0; i < part.num_layers; ++i)
            block(part.first_layer + i);
        if (part.head) {
            norm("ln_f");
            if (!model_.tie_embeddings) {
                add("head.weight", {model_.vocab, model_.hidden}, drawn());
            }
        }
        return std::move(groups_);
    }

private:
    Initialisation drawn() const { return {.std = model_.init_std}; }
    /// Projections onto the residual stream start smaller, so that its variance does not grow with
    /// depth (GPT-2).
    Initialisation projection() const {
        return {.std = model_.init_std / std::sqrt(2.0 * static_cast<double>(model_.layers))};
    }

    void add(const std::string& name, const Shape& shape, Initialisation start) {
        groups_.push_back({name, {{name, shape, start}}});
    }

    void norm(const std::string& name) {
        add(name + ".weight", {model_.hidden}, {.constant = 1});
        if (model_.bias && model_.normalization == Normalization::layernorm) {
            add(name + ".bias", {model_.hidden}, {});
        }
    }

    /// A linear layer of the current block whose rows are the members, one below the other.
    void linear(const std::string& group,
                const std::vector<std::pair<std::string, std::int64_t>>& rows, std::int64_t inputs,
                Initialisation start) {
        const bool inner = layer_ > 0 && layer_ < model_.layers - 1;
        Group weight{group + ".weight", {}, float8_ && inner};
        Group bias{group + ".bias", {}};
        for (const auto& [name, outputs] : rows) {
            weight.members.push_back({name + ".weight", {outputs, inputs}, start});
            bias.members.push_back({name + ".bias", {outputs}, {}});
        }
        groups_.push_back(std::move(weight));
        if (model_.bias) groups_.push_back(std::move(bias));
    }

    void block(std::int64_t layer) {
        layer_ = layer;
        const std::string at = text("h.", layer, ".");
        const std::int64_t q_rows = model_.heads * model_.head_dim;
        const std::int64_t kv_rows = model_.groups * model_.head_dim;
        norm(at + "ln_1");
        linear(at + "attn.qkv",
               {{at + "attn.q", q_rows}, {at + "attn.k", kv_rows}, {at + "attn.v", kv_rows}},
               model_.hidden, drawn());
        linear(at + "attn.proj", {{at + "attn.proj", model_.hidden}}, q_rows, projection());
        norm(at + "ln_2");
        if (model_.activation == Activation::swiglu) {
            linear(at + "mlp.fc_gate", {{at + "mlp.fc", model_.ffn}, {at + "mlp.gate", model_.ffn}},
                   model_.hidden, drawn());
        } else {
            linear(at + "mlp.fc_gate", {{at + "mlp.fc", model_.ffn}}, model_.hidden, drawn());
        }
        linear(at + "mlp.proj", {{at + "mlp.proj", model_.hidden}}, model_.ffn, projection());
    }

    const ModelShape& model_;
    bool float8_;
    std::int64_t layer_ = 0;
    std::vector<Group> groups_;
};

/// Places the members of a group side by side and returns the end.
std::int64_t place(ParameterLayout& layout, const Group& group, std::int64_t begin) {
    Shape stacked = group.members.front().shape;
    stacked[0] = 0;
    std::int64_t end = begin;
    for (const Member& member : group.members) {
        stacked[0] += member.shape[0];
        layout.parameters.push_back({Shard::whole(member.name, member.shape), member.start, end});
        end = layout.parameters.back().end();
    }
    layout.groups.push_back({group.name, stacked, begin, group.float8});
    return end;
}

}  // namespace

ParameterLayout make_layout(const ModelShape& model, const ChunkPart& part, std::int64_t shards,
                            bool float8) {
    const std::vector<Group> groups = GroupList(model, float8).of(part);
    const std::int64_t bucket_unit = group_alignment * shards;
    ParameterLayout layout;
    std::int64_t bucket_begin = 0;
    std::int64_t end = 0;
    const auto close_bucket = [&] {
        end = round_up(end, bucket_unit);
        layout.buckets.push_back({bucket_begin, end});
        bucket_begin = end;
    };
    for (auto group = groups.rbegin(); group != groups.rend(); ++group) {
        end = place(layout, *group, round_up(end, group_alignment));
        if (end - bucket_begin >= bucket_elements) close_bucket();
    }
    if (end > bucket_begin) close_bucket();
    layout.elements = end;
    return layout;
}

}  // namespace gptrain
