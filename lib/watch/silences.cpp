#include "watch/silences.h"

#include <algorithm>
#include <cmath>

namespace gptrain {
namespace {

bool has_kind(const RankRecord& record) {
    return record.phase.view() == "step" || record.phase.view() == "evaluation";
}

/// By how many times its length a limit grows at most where cores are short.
constexpr std::int64_t most_longer = 2;

/// True if the rank is at an action or waits for other ranks, so that no file can delay it.
bool works(const RankRecord& record) {
    return record.action.view() != loading_batch &&
           (record.waiting != 0 || !record.action.view().empty());
}

}  // namespace

std::size_t Silences::find_or_add(const RankRecord& record) {
    auto kind = std::ranges::find(kinds_, record.phase, &Kind::phase);
    if (kind == kinds_.end()) kind = kinds_.insert(kind, {.phase = record.phase});
    return static_cast<std::size_t>(kind - kinds_.begin());
}

void Silences::observe(const RankRecord& record, const CoreUse& cores, std::int64_t now,
                       std::int64_t moved) {
    if (moved != silence_.began) {
        if (silence_.kind) {
            std::int64_t& longest = kinds_[*silence_.kind].longest_ms;
            longest = std::max(longest, silence_.ms);
        }
        silence_ = {.began = moved, .ms = 0, .waited_ms = cores.waited_ms, .kind = {}};
    }
    if (!has_kind(record)) return;
    const std::size_t index = find_or_add(record);
    Kind& kind = kinds_[index];
    if (record.work > kind.work) {
        kind.work = record.work;
        kind.phases = 0;
    }
    if (record.step != kind.step) {
        kind.step = record.step;
        ++kind.phases;
    }
    if (!works(record)) return;
    silence_.ms = now - moved;
    silence_.kind = index;
}

std::int64_t Silences::limit(const RankRecord& record, const CoreUse& cores) const {
    const bool first = record.step < record.first_step + first_steps;
    if (record.waiting == 0 && first && record.phase.view() == "step")
        return first_factor * hang_ms_;
    if (factor_ == 0 || !works(record)) return hang_ms_;
    // A rank that waits for others may spin.
    if (record.waiting == 0 && cores.computes) return hang_ms_;
    const auto kind = std::ranges::find(kinds_, record.phase, &Kind::phase);
    if (kind == kinds_.end() || kind->phases <= first_phases) return hang_ms_;
    const double most = static_cast<double>(hang_ms_);
    const double factored = std::round(factor_ * static_cast<double>(kind->longest_ms));
    const auto learned = std::max(shortest_ms, static_cast<std::int64_t>(std::min(factored, most)));
    const std::int64_t waited = cores.waited_ms - silence_.waited_ms;
    return std::min(learned + std::min(waited, most_longer * learned), hang_ms_);
}

}  // namespace gptrain
