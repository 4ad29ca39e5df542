#include "watch/hang_report.h"

#include <algorithm>
#include <map>
#include <optional>

#include "base/text.h"
#include "watch/waits.h"

namespace gptrain {
namespace {

std::optional<Culprit> find_lost(std::span<const RankView> ranks) {
    const auto lost =
        std::find_if(ranks.begin(), ranks.end(), [](const RankView& rank) { return !rank.alive; });
    if (lost == ranks.end()) return std::nullopt;
    return Culprit{static_cast<int>(lost - ranks.begin()), HangCause::lost};
}

std::optional<Culprit> find_busy(std::span<const RankView> ranks, const Waits& waits) {
    std::optional<int> lowest;
    for (int rank = 0; rank < std::ssize(ranks); ++rank) {
        if (ranks[static_cast<std::size_t>(rank)].record.waiting != 0) continue;
        if (waits.is_awaited(rank)) return Culprit{rank, HangCause::busy};
        if (!lowest) lowest = rank;
    }
    if (!lowest) return std::nullopt;
    return Culprit{*lowest, HangCause::busy};
}

/// For ranks that all wait.
Culprit find_last_in_chain(int ranks, const Waits& waits) {
    int rank = 0;
    while (rank < ranks && !waits.first_awaited_by(rank))
        ++rank;
    if (rank == ranks) return {};
    std::vector<bool> seen(static_cast<std::size_t>(ranks));
    while (const auto next = waits.first_awaited_by(rank)) {
        if (seen[static_cast<std::size_t>(rank)]) return {rank, HangCause::cycle};
        seen[static_cast<std::size_t>(rank)] = true;
        rank = *next;
    }
    return {rank, HangCause::behind};
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
    const Waits waits(ranks, mesh);
    if (const auto busy = find_busy(ranks, waits)) return *busy;
    return find_last_in_chain(static_cast<int>(ranks.size()), waits);
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
                         std::string_view sign, const HangTime& time) {
    const Culprit culprit = find_culprit(ranks, mesh);
    const RankView& view = ranks[static_cast<std::size_t>(culprit.rank)];
    std::string out = text("hang: rank ", culprit.rank, " (", to_text(place_of(culprit.rank, mesh)),
                           ") on ", view.record.host.view(), ", process ", view.record.pid, ", ",
                           cause_text(culprit.cause));
    if (!sign.empty()) out += text(" (", sign, ")");
    const auto lost =
        std::count_if(ranks.begin(), ranks.end(), [](const RankView& rank) { return !rank.alive; });
    if (lost > 1) out += text(", and ", lost - 1, " more");
    const bool learned = time.seconds < time.hang_seconds;
    return out + text("; last seen in ", to_text(view.record), "; no rank has moved for ",
                      fixed(time.seconds, learned ? 1 : 0), " s (",
                      learned ? "far longer than before: faults.silence_factor"
                      : time.seconds > time.hang_seconds
                          ? "three times faults.hang_seconds, for the first steps"
                          : "faults.hang_seconds",
                      "); restart the run, it continues from the newest checkpoint");
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
