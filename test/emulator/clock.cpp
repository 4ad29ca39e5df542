#include "emulator/clock.h"

#include <algorithm>

namespace gptrain::emulator {

/// The part of the block, or null.
template <class Parts>
auto Clock::find(Parts& parts, std::uint32_t block) {
    const auto found = std::find_if(parts.begin(), parts.end(),
                                    [&](const Part& part) { return part.block == block; });
    return found == parts.end() ? nullptr : &*found;
}

/// The times of a part for writing, of at least `agents` agents.
Clock::Times& Clock::own(Part& part, std::size_t agents) {
    if (part.times.use_count() > 1) part.times = std::make_shared<Times>(*part.times);
    if (part.times->size() < agents) part.times->resize(agents);
    return *part.times;
}

void Clock::raise(std::uint32_t block, Agent agent, Time time) {
    Part* part = find(parts_, block);
    if (part == nullptr) {
        parts_.push_back({block, std::make_shared<Times>()});
        part = &parts_.back();
    }
    Time& at = own(*part, std::size_t{agent} + 1)[agent];
    at = std::max(at, time);
}

void Clock::join(const Clock& other) {
    for (const Part& theirs : other.parts_) {
        Part* mine = find(parts_, theirs.block);
        if (mine == nullptr) {
            parts_.push_back(theirs);
        } else if (mine->times != theirs.times) {
            Times& times = own(*mine, theirs.times->size());
            const std::size_t known = theirs.times->size();
            for (std::size_t i = 0; i < known; ++i)
                times[i] = std::max(times[i], (*theirs.times)[i]);
        }
    }
}

void Clock::meet(const Clock& other) {
    for (Part& mine : parts_) {
        const Part* theirs = find(other.parts_, mine.block);
        if (theirs != nullptr && mine.times == theirs->times) continue;
        Times& times = own(mine, 0);
        const std::size_t known =
            theirs == nullptr ? 0 : std::min(times.size(), theirs->times->size());
        for (std::size_t i = 0; i < known; ++i)
            times[i] = std::min(times[i], (*theirs->times)[i]);
        std::fill(times.begin() + static_cast<std::ptrdiff_t>(known), times.end(), 0);
    }
}

}  // namespace gptrain::emulator
