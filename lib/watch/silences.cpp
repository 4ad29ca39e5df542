#include "watch/silences.h"

#include <algorithm>
#include <cmath>

namespace gptrain {
namespace {

bool has_kind(const RankRecord& record) {
    return record.phase.view() == "step" || record.phase.view() == "evaluation";
}

/// True if the rank is at an action or waits for other ranks, so that no file can delay it.
bool works(const RankRecord& record) {
    return record.action.view() != loading_batch &&
           (record.waiting != 0 || !record.action.view().empty());
}

}  // namespace

void Silences::observe(const RankRecord& record, std::int64_t silence_ms) {
    if (!has_kind(record)) return;
    auto kind = std::ranges::find(kinds_, record.phase, &Kind::phase);
    if (kind == kinds_.end()) kind = kinds_.insert(kind, {.phase = record.phase});
    if (record.work > kind->work) {
        kind->work = record.work;
        kind->phases = 0;
    }
    if (record.step != kind->step) {
        kind->step = record.step;
        ++kind->phases;
    }
    if (works(record)) kind->longest_ms = std::max(kind->longest_ms, silence_ms);
}

std::int64_t Silences::limit(const RankRecord& record) const {
    if (factor_ == 0 || !works(record)) return hang_ms_;
    const auto kind = std::ranges::find(kinds_, record.phase, &Kind::phase);
    if (kind == kinds_.end() || kind->phases <= first_phases) return hang_ms_;
    const double learned = std::round(factor_ * static_cast<double>(kind->longest_ms));
    const double most = static_cast<double>(hang_ms_);
    return std::max(std::min(shortest_ms, hang_ms_),
                    static_cast<std::int64_t>(std::min(learned, most)));
}

}  // namespace gptrain
