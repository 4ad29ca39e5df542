// Which rank holds and owns which state, and what weight decay applies to.
#include <algorithm>
#include <cmath>
#include <map>

#include "catch.h"
#include "engine/rank_training.h"
#include "meter/meter_communicator.h"
#include "schedule/stage_plan.h"
#include "spec/make_plan.h"
#include "tiny_run.h"

using namespace gptrain;
using namespace gptrain::test;

namespace {

constexpr std::int64_t data_ranks = 3;

const BackendMemory no_scratch = {.scratch = [](const OpLimits&) { return std::int64_t{0}; }};

/// Six ranks, tp 2 and dp 3.
RunSpec mesh_spec() {
    RunSpec spec = tiny_spec();
    spec.parallel.tensor = 2;
    spec.training.global_batch_size = 12;
    return spec;
}

/// The state of a model on all ranks of a mesh.
struct MeshState {
    /// How many ranks own each element of a tensor, by group and name.
    std::map<std::string, std::map<std::string, std::vector<int>>> owners;
    /// Elements that a rank holds of a group, by dp rank; of the first tp rank.
    std::map<std::string, std::vector<std::int64_t>> held;
};

MeshState state_of(const RunSpec& spec) {
    MeshState all;
    for (std::int64_t rank = 0; rank < data_ranks * spec.parallel.tensor; ++rank) {
        MeshPlace place;
        TinyRun run(spec, std::make_unique<MeterBackend>(no_scratch),
                    data_ranks * spec.parallel.tensor, [&](const RunPlan& plan, Backend&) {
                        place = place_of(rank, plan.mesh);
                        return Mesh(plan.mesh, place, mesh_connections(plan),
                                    meter_communicators());
                    });
        run.visit_state([&](const NamedState& state) {
            const Shard& shard = state.shard;
            CHECK(state.values.elements() == shard.elements());
            const std::string group(state.group);
            auto& held = all.held[group];
            held.resize(data_ranks);
            if (place.tp == 0) held[static_cast<std::size_t>(place.dp)] += shard.elements();
            auto& owners = all.owners[group][shard.name];
            owners.resize(static_cast<std::size_t>(shard.global.elements()));
            if (!shard.owned) return;
            for (std::int64_t i = shard.flat_begin; i < shard.flat_end; ++i)
                ++owners[static_cast<std::size_t>(shard.global_index(i))];
        });
    }
    return all;
}

bool is_matrix_of_block(const std::string& name) {
    return name.starts_with("h.") && name.ends_with(".weight") &&
           name.find(".ln_") == std::string::npos;
}

bool all_have(int expected, const std::vector<int>& owners) {
    return std::all_of(owners.begin(), owners.end(), [&](int count) { return count == expected; });
}

}  // namespace

TEST_CASE("every element of the state has one owner on the mesh", "[optim]") {
    RunSpec spec = mesh_spec();
    spec.parallel.shard = GENERATE(Sharded::optimizer, Sharded::none);
    spec.optimizer.name = GENERATE(0, 1) == 0 ? "adamw" : "muon";
    if (GENERATE(false, true)) spec.training.frozen = {"wte.weight", "h.1.*"};
    CAPTURE(name_of(spec.parallel.shard), spec.optimizer.name, spec.training.frozen);
    MeshState state = state_of(spec);
    for (const auto& [group, tensors] : state.owners) {
        for (const auto& [name, owners] : tensors) {
            CAPTURE(group, name);
            CHECK(all_have(1, owners));
        }
    }
    const bool uses_muon = spec.optimizer.name == "muon";
    for (const auto& [name, unused] : state.owners["weight"]) {
        CAPTURE(name);
        const bool frozen =
            !spec.training.frozen.empty() && (name == "wte.weight" || name.starts_with("h.1."));
        const bool muon = uses_muon && is_matrix_of_block(name) && !frozen;
        CHECK(state.owners["momentum_buffer"].contains(name) == muon);
        CHECK(state.owners["exp_avg"].contains(name) == (!muon && !frozen));
        CHECK(state.owners["exp_avg_sq"].contains(name) == (!muon && !frozen));
    }
}

// On the four ranks of dp 2 and cp 2, the mlp's parameters have the sharing that is named.
TEST_CASE("parameters that are shared in two ways have buckets and owners apart", "[optim]") {
    constexpr Axis dp = Axis::dp;
    constexpr Axis cp = Axis::cp;
    constexpr Axis dp_cp = Axis::dp_cp;
    const auto [other, updating, saving] = GENERATE(table<Sharing, int, int>(
        {{{cp, cp}, 2, 2}, {{cp}, 4, 2}, {{dp_cp, cp}, 2, 1}, {{dp_cp, dp}, 2, 1}}));
    const auto is_other = [](const std::string& name) {
        return name.find(".mlp.") != std::string::npos;
    };
    const MeshShape shape = {.data = 2, .context = 2};
    const ModelShape model = make_plan(tiny_spec(), {}).model;
    const ParameterLayout layout =
        make_layout({.model = model,
                     .chunks = {{.num_layers = model.layers}},
                     .mesh = shape,
                     .sharing = [&, other = other](const TensorGroup& group) {
                         return is_other(group.name) ? other : Sharing{.owners = dp_cp};
                     }});
    std::map<std::string, std::vector<int>> updates;
    std::map<std::string, std::vector<int>> saves;
    for (std::int64_t rank = 0; rank < shape.size(); ++rank) {
        const Mesh mesh(shape, place_of(rank, shape), {}, meter_communicators());
        for (const OwnedRange& range : owned_ranges(layout, mesh)) {
            const Shard& shard = range.shard;
            for (auto* all : {&updates, &saves})
                (*all)[shard.name].resize(static_cast<std::size_t>(shard.global.elements()));
            const bool saved = owner_of(range.parameter->sharing, mesh).saves;
            for (std::int64_t i = shard.flat_begin; i < shard.flat_end; ++i) {
                ++updates[shard.name][static_cast<std::size_t>(i)];
                saves[shard.name][static_cast<std::size_t>(i)] += saved ? 1 : 0;
            }
        }
    }
    for (const Parameter& parameter : layout.parameters) {
        const std::string& name = parameter.shard.name;
        CAPTURE(name);
        CHECK(std::ssize(updates[name]) == parameter.shard.elements());
        CHECK(all_have(is_other(name) ? updating : 1, updates[name]));
        CHECK(all_have(is_other(name) ? saving : 1, saves[name]));
        const auto bucket =
            std::find_if(layout.buckets.begin(), layout.buckets.end(),
                         [&](const Bucket& each) { return parameter.begin() < each.end; });
        CHECK(bucket->sharing == parameter.sharing);
    }
    // Each rank sends what it has updated to those that have not.
    for (const WeightMessage& message :
         weight_messages(layout, Mesh(shape, {}, {}, meter_communicators())))
        CHECK((message.owners == dp_cp || message.owners == other.owners));
}

TEST_CASE("ranks of dp hold about equal parts of a sharded state, else everything", "[optim]") {
    RunSpec spec = mesh_spec();
    spec.parallel.shard = Sharded::none;
    const std::vector<std::int64_t> whole = state_of(spec).held.at("exp_avg");
    CHECK(whole == std::vector(data_ranks, whole[0]));
    spec.parallel.shard = Sharded::optimizer;
    const std::vector<std::int64_t> parts = state_of(spec).held.at("exp_avg");
    CHECK(parts[0] + parts[1] + parts[2] == whole[0]);
    // Padding, which nobody holds, is less than a row of the vocabulary and a few elements.
    for (const std::int64_t part : parts)
        CHECK(std::abs(part - whole[0] / data_ranks) < 2 * spec.model.hidden_size);
}

TEST_CASE("a step clears all gradients but those of linear layers and the head", "[optim]") {
    RunSpec spec = GENERATE(0, 1) == 0 ? mesh_spec() : with_lora(mesh_spec());
    if (GENERATE(false, true)) spec.training.frozen = {"wte.weight", "h.1.*"};
    if (spec.adapter) spec.training.frozen.clear();
    const bool overwrites = GENERATE(true, false);
    RunPlan plan = make_plan(spec, {.world_size = data_ranks * spec.parallel.tensor});
    plan.overwrites_gradients = overwrites;
    const Mesh mesh(plan.mesh, {}, mesh_connections(plan), meter_communicators());
    const ParameterLayout layout = training_layout(plan, mesh);
    const std::vector<FlatRange> ranges = cleared_ranges(layout);
    for (std::size_t i = 1; i < ranges.size(); ++i)
        CHECK(ranges[i - 1].end < ranges[i].begin);
    if (!overwrites || spec.adapter) CHECK(ranges.size() == 1);
    for (const Parameter& parameter : layout.parameters) {
        if (!parameter.trained()) continue;
        const std::string& name = parameter.shard.name;
        CAPTURE(name);
        std::int64_t cleared = 0;
        for (const FlatRange& range : ranges)
            cleared += std::max<std::int64_t>(
                0, std::min(range.end, parameter.end()) - std::max(range.begin, parameter.begin()));
        const bool kept =
            overwrites && !spec.adapter && (is_matrix_of_block(name) || name == "wte.weight");
        CHECK(cleared == (kept ? 0 : parameter.shard.elements()));
    }
}

TEST_CASE("the head overwrites the gradient of its weight, where it comes first", "[optim]") {
    const bool tied = GENERATE(true, false);
    RunSpec spec = tiny_spec();
    spec.model.tie_embeddings = tied;
    const ModelShape model = make_plan(spec, {}).model;
    const std::string weight = tied ? "wte.weight" : "head.weight";
    const auto overwritten = [&](bool embedding, bool head, bool defers) {
        const ParameterLayout layout =
            make_layout({.model = model,
                         .chunks = {{.num_layers = 1, .embedding = embedding, .head = head}},
                         .split_tied_embedding = tied && embedding != head,
                         .defers_head = defers});
        const auto group =
            std::find_if(layout.groups.begin(), layout.groups.end(),
                         [&](const ParameterGroup& other) { return other.name == weight; });
        return group != layout.groups.end() && group->storage.overwritten;
    };
    CHECK(overwritten(true, true, false));
    CHECK(overwritten(false, true, false));
    CHECK_FALSE(overwritten(false, true, true));
    // The first stage only adds to the embedding's gradient.
    CHECK_FALSE(overwritten(true, false, false));
}

TEST_CASE("weight decay applies to tensors of two dims alone, embeddings included", "[optim]") {
    RunSpec spec = GENERATE(0, 1) == 0 ? tiny_spec() : tiny_qwen_spec();
    spec.lr_schedule.kind = LrKind::constant;
    const auto stepped = [&](double weight_decay) {
        spec.optimizer.weight_decay = weight_decay;
        TinyRun run(spec);
        const NamedValues before = run.state("weight");
        run.step(random_batch(run.plan(), 1));
        return std::pair{before, run.state("weight")};
    };
    constexpr double weight_decay = 0.5;
    const auto [before, without] = stepped(0);
    const NamedValues with = stepped(weight_decay).second;
    for (const auto& [name, values] : before) {
        CAPTURE(name);
        const bool is_norm =
            name.find("ln_") != std::string::npos || name.find("_norm") != std::string::npos;
        const double factor =
            is_norm || name.ends_with(".bias") ? 0 : spec.optimizer.lr * weight_decay;
        for (std::size_t i = 0; i < values.size(); ++i) {
            const double decayed = double{without.at(name)[i]} - double{with.at(name)[i]};
            // Four roundings of values below |w| + 2 lr: a first step moves a weight by lr at most.
            const double rounding =
                factor == 0 ? 0 : 4 * 0x1p-24 * (std::abs(values[i]) + 2 * spec.optimizer.lr);
            REQUIRE(std::abs(decayed - factor * values[i]) <= rounding);
        }
    }
}

TEST_CASE("Muon scales updates by the shape of the matrix", "[optim][muon]") {
    RunSpec spec = tiny_spec();
    spec.optimizer.name = "muon";
    spec.optimizer.weight_decay = 0;
    spec.lr_schedule.kind = LrKind::constant;
    const auto moved = [&](MuonScale scale) {
        spec.optimizer.muon.scale = scale;
        TinyRun run(spec);
        const NamedValues before = run.state("weight");
        run.step(random_batch(run.plan(), 1));
        return std::pair{before, run.state("weight")};
    };
    const auto [before, match] = moved(MuonScale::match_rms);
    const NamedValues original = moved(MuonScale::original).second;
    const double hidden = static_cast<double>(spec.model.hidden_size);
    for (const auto& [name, values] : before) {
        if (!is_matrix_of_block(name)) continue;
        CAPTURE(name);
        const bool is_fc = name.ends_with("mlp.fc.weight");      // [4 H, H]
        const bool is_proj = name.ends_with("mlp.proj.weight");  // [H, 4 H]
        const double match_scale = 0.2 * std::sqrt((is_fc || is_proj ? 4 : 1) * hidden);
        const double original_scale = is_fc ? 2 : 1;
        double largest = 0;
        for (std::size_t i = 0; i < values.size(); ++i) {
            const double a = double{match.at(name)[i]} - double{values[i]};
            const double b = double{original.at(name)[i]} - double{values[i]};
            largest = std::max(largest, std::abs(a));
            // Each update is rounded to a weight of at most 1, and so are its two terms.
            REQUIRE(std::abs(a * original_scale - b * match_scale) <=
                    3 * 0x1p-24 * (match_scale + original_scale));
        }
        CHECK(largest > 1e-3);
    }
}
