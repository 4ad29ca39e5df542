#include "comm/mesh.h"

#include <algorithm>

#include "base/at.h"
#include "base/error.h"
#include "base/text.h"

namespace gptrain {

std::string to_text(const MeshPlace& place) {
    return text("dp ", place.dp, " pp ", place.pp, " cp ", place.cp, " tp ", place.tp);
}

MeshPlace place_of(std::int64_t rank, const MeshShape& shape) {
    GPTRAIN_CHECK(rank >= 0 && rank < shape.size(), "rank ", rank, " of ", shape.size());
    MeshPlace place;
    for (const MeshAxis& axis : mesh_axes) {
        place.*axis.index = narrow<int>(rank % (shape.*axis.size));
        rank /= shape.*axis.size;
    }
    return place;
}

std::int64_t rank_of(const MeshPlace& place, const MeshShape& shape) {
    std::int64_t rank = 0;
    std::int64_t stride = 1;
    for (const MeshAxis& axis : mesh_axes) {
        rank += stride * (place.*axis.index);
        stride *= shape.*axis.size;
    }
    return rank;
}

bool contains(const std::vector<Axis>& list, Axis axis) {
    return std::find(list.begin(), list.end(), axis) != list.end();
}

const SubAxis* find_sub_axis(Axis axis) {
    const auto* const found = std::ranges::find(sub_axes, axis, &SubAxis::axis);
    return found == sub_axes.end() ? nullptr : &*found;
}

std::vector<Axis> spanned_axes(Axis axis) {
    if (const SubAxis* part = find_sub_axis(axis)) return spanned_axes(part->parent);
    switch (axis) {
        case Axis::dp_cp: return {Axis::dp, Axis::cp};
        case Axis::model: return {Axis::tp, Axis::pp};
        case Axis::tokens: return {Axis::tp, Axis::cp, Axis::dp};
        case Axis::embedding_ends: return {Axis::pp};
        default: return {axis};
    }
}

namespace {

/// With a part, each spanned axis is two digits: the part's neighbours, and the rest.
std::vector<RankDigit> make_digits(const std::vector<Axis>& spanned, const SubAxis* part,
                                   const MeshShape& shape) {
    std::vector<RankDigit> digits;
    std::int64_t stride = 1;
    const auto add = [&](std::int64_t count, bool is_spanned) {
        digits.push_back({stride, count, is_spanned});
        stride *= count;
    };
    std::int64_t neighbours = part == nullptr ? 1 : shape.*part->size;
    for (const MeshAxis& each : mesh_axes) {
        const std::int64_t size = shape.*each.size;
        if (part == nullptr || !contains(spanned, each.axis)) {
            add(size, contains(spanned, each.axis));
            continue;
        }
        const std::int64_t near = std::min(neighbours, size);
        neighbours = div_exact(neighbours, near);
        add(near, !part->across);
        add(div_exact(size, near), part->across);
    }
    return digits;
}

}  // namespace

std::vector<RankDigit> digits_of(const SubAxis& part, const MeshShape& shape) {
    return make_digits(spanned_axes(part.parent), &part, shape);
}

std::vector<RankDigit> digits_of(Axis axis, const MeshShape& shape) {
    return make_digits(spanned_axes(axis), find_sub_axis(axis), shape);
}

std::int64_t group_size(Axis axis, const MeshShape& shape) {
    return group_on(axis, 0, shape).size;
}

RankGroup group_in(Axis axis, const std::vector<RankDigit>& digits, std::int64_t rank) {
    RankGroup group = {.axis = axis, .id = rank};
    for (const RankDigit& digit : digits) {
        if (!digit.spanned) continue;
        const std::int64_t index = rank / digit.stride % digit.count;
        group.id -= index * digit.stride;
        group.rank += narrow<int>(group.size * index);
        group.size = narrow<int>(group.size * digit.count);
    }
    return group;
}

RankGroup group_on(Axis axis, std::int64_t rank, const MeshShape& shape) {
    return group_in(axis, digits_of(axis, shape), rank);
}

namespace {

/// A group of one rank.
RankGroup alone(Axis axis, const MeshPlace& place, const MeshShape& shape) {
    return {.axis = axis, .id = rank_of(place, shape)};
}

/// First and last stage; a group of one rank on other stages, and if the embedding is not split.
RankGroup embedding_group(const MeshPlace& place, const MeshShape& shape, bool split) {
    const bool at_end = place.pp == 0 || place.pp == shape.pipeline - 1;
    if (!split || !at_end) return alone(Axis::embedding_ends, place, shape);
    MeshPlace first = place;
    first.pp = 0;
    return {Axis::embedding_ends, rank_of(first, shape), place.pp == 0 ? 0 : 1, 2};
}

/// The group of the rank at `place` that has a communicator.
RankGroup connected_group(Axis axis, const MeshPlace& place, const MeshShape& shape,
                          const MeshConnections& connections) {
    if (axis == Axis::embedding_ends)
        return embedding_group(place, shape, connections.split_tied_embedding);
    return group_on(axis, rank_of(place, shape), shape);
}

/// Splits channels into rounds without a stage in common, so that one factory call makes all
/// channels of a round.
std::vector<std::vector<Channel>> rounds_of(const std::vector<Channel>& channels) {
    std::vector<std::vector<Channel>> rounds;
    const auto meets = [](const Channel& a, const Channel& b) {
        return a.from == b.from || a.from == b.to || a.to == b.from || a.to == b.to;
    };
    for (const Channel& channel : channels) {
        const auto free = std::find_if(rounds.begin(), rounds.end(), [&](const auto& round) {
            return std::none_of(round.begin(), round.end(),
                                [&](const Channel& other) { return meets(channel, other); });
        });
        if (free == rounds.end()) {
            rounds.push_back({channel});
        } else {
            free->push_back(channel);
        }
    }
    return rounds;
}

}  // namespace

std::optional<Axis> twin_of(Axis axis, const MeshShape& shape, const MeshConnections& connections) {
    const auto traffic = [&](Axis of) { return at(connections.traffic, of); };
    const auto same_if = [&](bool same, Axis twin) {
        return same && traffic(axis) == traffic(twin) ? std::optional(twin) : std::nullopt;
    };
    if (const SubAxis* part = find_sub_axis(axis)) {
        return same_if(group_size(axis, shape) == group_size(part->parent, shape), part->parent);
    }
    switch (axis) {
        case Axis::model: return same_if(shape.pipeline == 1, Axis::tp);
        case Axis::embedding_ends:
            return same_if(
                connections.split_tied_embedding && shape.pipeline == 2 && shape.tensor == 1,
                Axis::model);
        default: return std::nullopt;
    }
}

Mesh::Mesh(const MeshShape& shape, const MeshPlace& place, const MeshConnections& connections,
           const CommunicatorFactory& make)
    : shape_(shape), place_(place), head_stage_(connections.head_stage) {
    for (int index = 0; index < axes; ++index) {
        const auto axis = static_cast<Axis>(index);
        Communicator*& mine = at(of_axis_, index);
        if (const auto twin = twin_of(axis, shape, connections)) {
            // Communicators have the numbers of their axes, as hang reports expect.
            make(alone(axis, place, shape));
            mine = &(*this)[*twin];
            continue;
        }
        const Traffic& traffic = at(connections.traffic, index);
        RankGroup group = traffic.any() ? connected_group(axis, place, shape, connections)
                                        : alone(axis, place, shape);
        group.traffic = traffic;
        communicators_.push_back(make(group));
        mine = communicators_.back().get();
    }
    connect(connections.channels, make);
}

void Mesh::connect(const std::vector<Channel>& channels, const CommunicatorFactory& make) {
    for (const std::vector<Channel>& round : rounds_of(channels)) {
        const auto mine = std::find_if(round.begin(), round.end(), [&](const Channel& channel) {
            return channel.from == place_.pp || channel.to == place_.pp;
        });
        RankGroup group = alone(Axis::pp, place_, shape_);
        if (mine == round.end()) {
            make(group);
            continue;
        }
        MeshPlace sender = place_;
        sender.pp = mine->from;
        group = {Axis::pp,
                 rank_of(sender, shape_),
                 mine->from == place_.pp ? 0 : 1,
                 2,
                 {.collectives = false, .ring = false, .all_pairs = false}};
        connections_.push_back({*mine, make(group)});
    }
}

Communicator& Mesh::channel(const Channel& channel) const {
    const auto found = std::ranges::find(connections_, channel, &Connection::channel);
    GPTRAIN_CHECK(found != connections_.end(), "no channel from stage ", channel.from, " to ",
                  channel.to);
    return *found->communicator;
}

void Mesh::warm_up() const {
    for (const auto& communicator : communicators_)
        communicator->barrier();
    for (const Connection& connection : connections_)
        connection.communicator->barrier();
}

std::int64_t Mesh::held_bytes() const {
    std::int64_t sum = 0;
    for (const auto& communicator : communicators_)
        sum += communicator->held_bytes();
    for (const Connection& connection : connections_)
        sum += connection.communicator->held_bytes();
    return sum;
}

Mesh one_rank_mesh() {
    return Mesh({}, {}, {},
                [](const RankGroup&) { return std::make_unique<OneRankCommunicator>(); });
}

void share_sums(const Mesh& mesh, const StepRef& step) {
    mesh.dp_cp().all_reduce(step.sums(), Reduce::sum).wait();
    // The ranks of tp have the same sums.
    if (mesh.shape().pipeline == 1) return;
    mesh.model().broadcast(step.loss_sum(), mesh.head_rank()).wait();
    if (step.counts.total() > 0) mesh.model().all_reduce(step.measures(), Reduce::sum).wait();
}

}  // namespace gptrain
