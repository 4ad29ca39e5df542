#include "watch/hang_report.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "base/text.h"

namespace gptrain {
namespace {

/// True if two ranks share a communicator of that axis.
bool share_communicator(Axis axis, const MeshPlace& a, const MeshPlace& b, const MeshShape& mesh) {
    const bool dp = a.dp == b.dp;
    const bool pp = a.pp == b.pp;
    const bool cp = a.cp == b.cp;
    const bool tp = a.tp == b.tp;
    const auto at_end = [&](const MeshPlace& place) {
        return place.pp == 0 || place.pp == mesh.pipeline - 1;
    };
    switch (axis) {
        case Axis::tp: return dp && pp && cp;
        case Axis::cp: return dp && pp && tp;
        case Axis::dp: return pp && cp && tp;
        case Axis::pp: return dp && cp && tp;
        case Axis::dp_cp: return pp && tp;
        case Axis::model: return dp && cp;
        // The exact sharers are not known here, but all groups run the same operations.
        case Axis::kv: return dp && pp && cp;
        case Axis::embedding_ends: return dp && cp && tp && at_end(a) && at_end(b);
    }
    return false;
}

/// The ranks that rank `waiting` waits for: those that have started fewer operations on its
/// communicator. Messages between stages have their own communicators and do not count.
std::vector<int> ranks_awaited_by(std::span<const RankView> ranks, int waiting,
                                  const MeshShape& mesh) {
    const RankRecord& own = ranks[static_cast<std::size_t>(waiting)].record;
    std::vector<int> behind;
    if (own.waiting == 0) return behind;
    const auto add_behind = [&](const auto& shares, const auto& operations) {
        for (int rank = 0; rank < std::ssize(ranks); ++rank) {
            const RankRecord& other = ranks[static_cast<std::size_t>(rank)].record;
            if (rank != waiting && shares(rank) && operations(other) < own.number)
                behind.push_back(rank);
        }
    };
    if (own.axis.view() == "world") {
        add_behind([](int) { return true; },
                   [](const RankRecord& record) { return record.world_operations; });
        return behind;
    }
    const MeshPlace place = place_of(waiting, mesh);
    for (int axis = 0; axis < axes; ++axis) {
        const auto which = static_cast<Axis>(axis);
        const auto index = static_cast<std::size_t>(axis);
        if (own.axis.view() != name_of(which) || own.started[index] != own.number) continue;
        add_behind(
            [&](int rank) { return share_communicator(which, place, place_of(rank, mesh), mesh); },
            [&](const RankRecord& record) { return record.started[index]; });
    }
    return behind;
}

std::optional<Culprit> find_lost(std::span<const RankView> ranks) {
    const auto lost =
        std::find_if(ranks.begin(), ranks.end(), [](const RankView& rank) { return !rank.alive; });
    if (lost == ranks.end()) return std::nullopt;
    return Culprit{static_cast<int>(lost - ranks.begin()), HangCause::lost};
}

std::optional<Culprit> find_busy(std::span<const RankView> ranks, const MeshShape& mesh) {
    std::set<int> busy;
    for (int rank = 0; rank < std::ssize(ranks); ++rank)
        if (ranks[static_cast<std::size_t>(rank)].record.waiting == 0) busy.insert(rank);
    if (busy.empty()) return std::nullopt;
    std::set<int> wanted;
    for (int rank = 0; busy.size() > 1 && rank < std::ssize(ranks); ++rank)
        for (const int other : ranks_awaited_by(ranks, rank, mesh))
            if (busy.count(other) > 0) wanted.insert(other);
    return Culprit{wanted.empty() ? *busy.begin() : *wanted.begin(), HangCause::busy};
}

/// For ranks that all wait.
Culprit find_last_in_chain(std::span<const RankView> ranks, const MeshShape& mesh) {
    std::set<int> seen;
    for (int start = 0; start < std::ssize(ranks); ++start) {
        int rank = start;
        std::vector<int> next = ranks_awaited_by(ranks, rank, mesh);
        if (next.empty()) continue;
        while (!next.empty()) {
            if (!seen.insert(rank).second) return {rank, HangCause::cycle};
            rank = next.front();
            next = ranks_awaited_by(ranks, rank, mesh);
        }
        return {rank, HangCause::behind};
    }
    return {};
}

std::string_view cause_text(HangCause cause) {
    switch (cause) {
        case HangCause::lost: return "shows no sign of life";
        case HangCause::busy: return "is stuck and waits for no other rank";
        case HangCause::behind: return "waits for others while they wait for it";
        case HangCause::cycle: return "is one of several ranks waiting for each other in a cycle";
        case HangCause::unknown: return "waits, like all ranks";
    }
    return "?";
}

}  // namespace

Culprit find_culprit(std::span<const RankView> ranks, const MeshShape& mesh) {
    if (const auto lost = find_lost(ranks)) return *lost;
    if (const auto busy = find_busy(ranks, mesh)) return *busy;
    return find_last_in_chain(ranks, mesh);
}

std::string to_text(const RankRecord& record) {
    std::string out(record.phase.view());
    if (record.step > 0) out += text(' ', record.step);
    if (!record.action.view().empty()) out += text(", ", record.action.view());
    if (record.operation.view().empty()) return out;
    return out + text(record.waiting != 0 ? ", waits in " : ", after ", record.operation.view(),
                      ' ', record.number, " on ", record.axis.view());
}

std::string hang_message(std::span<const RankView> ranks, const MeshShape& mesh,
                         std::string_view sign, double hang_seconds) {
    const Culprit culprit = find_culprit(ranks, mesh);
    const RankView& view = ranks[static_cast<std::size_t>(culprit.rank)];
    std::string out = text("hang: rank ", culprit.rank, " (", to_text(place_of(culprit.rank, mesh)),
                           ") on ", view.record.host.view(), ", process ", view.record.pid, ", ",
                           cause_text(culprit.cause));
    if (!sign.empty()) out += text(" (", sign, ")");
    const auto lost =
        std::count_if(ranks.begin(), ranks.end(), [](const RankView& rank) { return !rank.alive; });
    if (lost > 1) out += text(", and ", lost - 1, " more");
    return out + text("; last seen in ", to_text(view.record), "; no rank has moved for ",
                      hang_seconds,
                      " s (faults.hang_seconds); restart the run, it continues from the newest "
                      "checkpoint");
}

std::vector<std::string> hang_table(std::span<const RankView> ranks) {
    constexpr std::size_t max_lines = 40;
    std::map<std::string, std::vector<int>> by_place;
    for (int rank = 0; rank < std::ssize(ranks); ++rank) {
        const RankView& view = ranks[static_cast<std::size_t>(rank)];
        by_place[text(to_text(view.record), view.alive ? "" : " (no sign of life)")].push_back(
            rank);
    }
    using Set = std::pair<std::string, std::vector<int>>;
    std::vector<Set> sets(by_place.begin(), by_place.end());
    std::stable_sort(sets.begin(), sets.end(),
                     [](const Set& a, const Set& b) { return a.second.size() > b.second.size(); });
    std::vector<std::string> lines;
    for (const auto& [place, members] : sets) {
        if (lines.size() == max_lines) {
            lines.push_back(text("... and ", sets.size() - max_lines, " more places"));
            break;
        }
        lines.push_back(
            text(members.size() == 1 ? "rank " : "ranks ", ranges_text(members), ": ", place));
    }
    return lines;
}

std::string ranges_text(std::span<const int> numbers) {
    std::string out;
    for (std::size_t i = 0; i < numbers.size();) {
        std::size_t end = i + 1;
        while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1)
            ++end;
        out += text(out.empty() ? "" : ", ", numbers[i]);
        if (end - i > 1) out += text('-', numbers[end - 1]);
        i = end;
    }
    return out;
}

}  // namespace gptrain
