#include "planner/whole_mesh.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "base/error.h"

namespace gptrain::test {
namespace {

using Event = CommList::Event;

/// A communicator with all its ranks.
struct Group {
    Axis axis;
    std::size_t communicator;          ///< its number on its ranks
    std::vector<int> members;          ///< world ranks, -1: not yet known
    std::vector<std::int32_t> issued;  ///< number of operations, by member
    std::int32_t over = 0;             ///< operations that all members have issued
    std::size_t behind = 0;            ///< members that have not issued the next one
    std::vector<int> waiting = {};     ///< world ranks
};

class WholeMesh {
public:
    WholeMesh(std::span<const MeshRank> ranks, StartRule rule);
    void match() const;
    void run();

private:
    Group& group_of(int rank, std::int32_t communicator) {
        return groups_[places_[index(rank)][index(communicator)]];
    }
    /// Continues until the rank must wait or has ended.
    void advance(int rank);
    void issue(int rank, const Event& event);
    [[noreturn]] void report_deadlock(int rank);

    static std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }
    static std::size_t behind(const Group& group) {
        return index(std::count(group.issued.begin(), group.issued.end(), group.over));
    }
    bool ended(int rank) const {
        return next_[index(rank)] == ranks_[index(rank)].list->events.size();
    }
    const Event& next(int rank) const {
        return ranks_[index(rank)].list->events[next_[index(rank)]];
    }

    /// Operations of the event's communicator that must be over before the rank continues.
    std::int32_t needed(const Event& event) const {
        if (event.waits) return event.number + 1;
        return rule_ == StartRule::nccl ? event.number : 0;
    }

    std::span<const MeshRank> ranks_;
    StartRule rule_;
    std::vector<Group> groups_;
    std::vector<std::vector<std::size_t>> places_;  ///< indices in groups_, by rank and
                                                    ///< communicator
    std::vector<std::size_t> next_;                 ///< index of the next event, by rank
    std::vector<int> ready_;
};

WholeMesh::WholeMesh(std::span<const MeshRank> ranks, StartRule rule)
    : ranks_(ranks), rule_(rule), places_(ranks.size()), next_(ranks.size()) {
    std::map<std::pair<std::size_t, std::int64_t>, std::size_t> found;
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
        for (std::size_t i = 0; i < ranks[rank].groups.size(); ++i) {
            const RankGroup& own = ranks[rank].groups[i];
            const auto [entry, is_new] = found.try_emplace({i, own.id}, groups_.size());
            places_[rank].push_back(entry->second);
            if (is_new) {
                const std::size_t size = index(own.size);
                groups_.push_back({.axis = own.axis,
                                   .communicator = i,
                                   .members = std::vector<int>(size, -1),
                                   .issued = std::vector<std::int32_t>(size)});
            }
            Group& group = groups_[entry->second];
            GPTRAIN_CHECK(
                group.axis == own.axis && std::cmp_equal(group.members.size(), own.size) &&
                    std::exchange(group.members[index(own.rank)], static_cast<int>(rank)) == -1,
                "rank ", rank, " does not fit into communicator ", i, " of rank ", own.id);
        }
    }
    for (Group& group : groups_) {
        GPTRAIN_CHECK(std::count(group.members.begin(), group.members.end(), -1) == 0,
                      "communicator ", group.communicator, " lacks a rank");
        group.behind = group.members.size();
    }
}

bool meet(const CommOperation& a, const CommOperation& b) {
    if (a.name != "send" && a.name != "recv") return a == b;
    return a.name != b.name && (b.name == "send" || b.name == "recv") && a.dtype == b.dtype &&
           a.elements == b.elements;
}

/// The index of the first operation that differs; the number of operations if none does.
std::size_t first_unlike(const std::vector<CommOperation>& a, const std::vector<CommOperation>& b) {
    std::size_t i = 0;
    while (i < a.size() && i < b.size() && meet(a[i], b[i]))
        ++i;
    return i;
}

void WholeMesh::match() const {
    // Pairs of lists already compared, by communicator.
    std::set<std::tuple<std::size_t, const CommList*, const CommList*>> done;
    for (const Group& group : groups_) {
        const CommList* first = ranks_[index(group.members.front())].list;
        const auto& expected = first->operations[group.communicator];
        for (std::size_t i = 1; i < group.members.size(); ++i) {
            const CommList* other = ranks_[index(group.members[i])].list;
            if (!done.insert({group.communicator, first, other}).second) continue;
            const auto& found = other->operations[group.communicator];
            const std::size_t at = first_unlike(expected, found);
            if (at == expected.size() && at == found.size()) continue;
            const auto words = [&](const std::vector<CommOperation>& operations) {
                return at < operations.size() ? to_text(operations[at]) : std::string("nothing");
            };
            fail(ExitCode::bug, "operation ", at, " on ", name_of(group.axis), ": rank ",
                 group.members.front(), " does ", words(expected), ", rank ", group.members[i],
                 " does ", words(found));
        }
    }
}

void WholeMesh::run() {
    for (int rank = 0; std::cmp_less(rank, ranks_.size()); ++rank)
        ready_.push_back(rank);
    while (!ready_.empty()) {
        const int rank = ready_.back();
        ready_.pop_back();
        advance(rank);
    }
    for (int rank = 0; std::cmp_less(rank, ranks_.size()); ++rank)
        if (!ended(rank)) report_deadlock(rank);
}

void WholeMesh::advance(int rank) {
    for (; !ended(rank); ++next_[index(rank)]) {
        const Event& event = next(rank);
        Group& group = group_of(rank, event.communicator);
        if (group.over < needed(event)) {
            group.waiting.push_back(rank);
            return;
        }
        if (!event.waits) issue(rank, event);
    }
}

void WholeMesh::issue(int rank, const Event& event) {
    Group& group = group_of(rank, event.communicator);
    const int member = ranks_[index(rank)].groups[index(event.communicator)].rank;
    if (group.issued[index(member)]++ != group.over || --group.behind > 0) return;
    while (group.behind == 0) {
        ++group.over;
        group.behind = behind(group);
    }
    ready_.insert(ready_.end(), group.waiting.begin(), group.waiting.end());
    group.waiting.clear();
}

void WholeMesh::report_deadlock(int rank) {
    std::string chain;
    std::vector<bool> seen(ranks_.size());
    while (!ended(rank) && !seen[index(rank)]) {
        seen[index(rank)] = true;
        const Event& event = next(rank);
        const std::int32_t number = needed(event) - 1;
        const Group& group = group_of(rank, event.communicator);
        const auto late = std::find(group.issued.begin(), group.issued.end(), group.over);
        const int other = group.members[index(late - group.issued.begin())];
        const auto& operations = ranks_[index(rank)].list->operations[group.communicator];
        chain += text("rank ", rank, " waits for operation ", number, " on ", name_of(group.axis),
                      ", ", to_text(operations[index(number)]), ", and so for rank ", other, "; ");
        rank = other;
    }
    fail(ExitCode::bug, "the mesh deadlocks: ", chain, "rank ", rank,
         ended(rank) ? " has ended" : " is one of them");
}

}  // namespace

void check_whole_mesh(std::span<const MeshRank> ranks, StartRule rule) {
    WholeMesh mesh(ranks, rule);
    mesh.match();
    mesh.run();
}

}  // namespace gptrain::test
