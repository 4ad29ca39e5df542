#include "watch/waits.h"

#include "comm/mesh.h"

namespace gptrain {
namespace {

/// Stands next to the axes for the session's own communicator.
constexpr int world = axes;

/// The operation that a rank waits in.
struct Wait {
    int axis = 0;
    std::int64_t number = 0;
};

std::optional<Wait> wait_of(const RankRecord& record) {
    if (record.waiting == 0) return std::nullopt;
    if (record.axis.view() == "world") return Wait{world, record.number};
    for (int axis = 0; axis < axes; ++axis) {
        if (record.axis.view() != name_of(static_cast<Axis>(axis))) continue;
        // Else it is a message between stages.
        if (record.started[static_cast<std::size_t>(axis)] == record.number)
            return Wait{axis, record.number};
    }
    return std::nullopt;
}

/// A number that the ranks of a communicator have in common. Which ranks share k/v heads is not
/// known here, but all groups of a tp axis run the same operations. Those that exchange rows of
/// experts, or divide state, are known, and may have different numbers of microbatches.
std::int64_t communicator_of(int rank, int axis, const MeshShape& mesh) {
    if (axis == world) return 0;
    const auto which = static_cast<Axis>(axis);
    const MeshPlace place = place_of(rank, mesh);
    const bool at_end = place.pp == 0 || place.pp == mesh.pipeline - 1;
    // Middle stages have none with others.
    if (which == Axis::embedding_ends && !at_end) return mesh.size() + rank;
    const SubAxis* part = find_sub_axis(which);
    const bool alike = part != nullptr && part->parent == Axis::tp;
    return group_on(alike ? part->parent : which, rank, mesh).id;
}

}  // namespace

void SharedOperations::add(int rank, std::int64_t started) {
    members_.push_back(rank);
    started_.push_back(started);
    least_.push_back(least_.empty() ? started : std::min(least_.back(), started));
}

std::optional<int> SharedOperations::first_behind(int rank, std::int64_t number) const {
    // `least_` descends.
    auto first = std::partition_point(least_.begin(), least_.end(),
                                      [&](std::int64_t least) { return least >= number; }) -
                 least_.begin();
    // A record that was read while it was written may be behind itself.
    if (first < std::ssize(members_) && members_[static_cast<std::size_t>(first)] == rank) {
        first = std::find_if(started_.begin() + first + 1, started_.end(),
                             [&](std::int64_t started) { return started < number; }) -
                started_.begin();
    }
    if (first == std::ssize(members_)) return std::nullopt;
    return members_[static_cast<std::size_t>(first)];
}

Waits::Waits(std::span<const RankView> ranks, const MeshShape& mesh) : ranks_(ranks), mesh_(mesh) {
    for (int rank = 0; rank < std::ssize(ranks_); ++rank) {
        const auto wait = wait_of(ranks_[static_cast<std::size_t>(rank)].record);
        if (!wait) continue;
        auto on = by_axis_.find(wait->axis);
        if (on == by_axis_.end())
            on = by_axis_.emplace(wait->axis, operations_on(wait->axis)).first;
        const std::int64_t shared = on->second.communicator_of[static_cast<std::size_t>(rank)];
        on->second.communicators[shared].add_wait(wait->number);
    }
}

Waits::OnAxis Waits::operations_on(int axis) const {
    OnAxis all;
    for (int rank = 0; rank < std::ssize(ranks_); ++rank) {
        all.communicator_of.push_back(communicator_of(rank, axis, mesh_));
        all.communicators[all.communicator_of.back()].add(rank, started(rank, axis));
    }
    return all;
}

std::int64_t Waits::started(int rank, int axis) const {
    const RankRecord& record = ranks_[static_cast<std::size_t>(rank)].record;
    return axis == world ? record.world_operations : record.started[static_cast<std::size_t>(axis)];
}

std::optional<int> Waits::first_awaited_by(int rank) const {
    const auto wait = wait_of(ranks_[static_cast<std::size_t>(rank)].record);
    if (!wait) return std::nullopt;
    const OnAxis& all = by_axis_.at(wait->axis);
    const std::int64_t shared = all.communicator_of[static_cast<std::size_t>(rank)];
    return all.communicators.at(shared).first_behind(rank, wait->number);
}

bool Waits::is_awaited(int rank) const {
    return std::any_of(by_axis_.begin(), by_axis_.end(), [&](const auto& on) {
        const auto& [axis, all] = on;
        const std::int64_t shared = all.communicator_of[static_cast<std::size_t>(rank)];
        return all.communicators.at(shared).awaits(started(rank, axis));
    });
}

}  // namespace gptrain
