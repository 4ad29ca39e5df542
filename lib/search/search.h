// The search for the settings that train fastest on given hardware.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "search/candidate_cost.h"
#include "search/outcomes.h"
#include "search/space.h"

namespace gptrain {

/// A candidate that fits, with the time of its step.
struct Found {
    Choices choices;
    RunPlan plan;
    StepEstimate estimate;
    std::int64_t required_bytes = 0;  ///< of the rank that needs the most, with the reserve
    std::int64_t host_bytes = 0;      ///< of host memory, of the same kind of rank; 0 on a CPU

    double seconds_per_sample() const {
        return estimate.step.seconds / static_cast<double>(choices.global_batch_size);
    }
};

struct SearchCounts {
    std::int64_t candidates = 0;  ///< all
    std::int64_t refused = 0;     ///< by the spec's rules
    std::int64_t too_large = 0;   ///< for the memory
    std::int64_t simulated = 0;   ///< in full
};

/// Shares of the memory below which the fastest is found as well.
constexpr std::array<double, 3> memory_corners = {0.75, 0.5, 0.25};

/// The time and memory of a candidate that may fit, as far as known.
struct CandidatePoint {
    double seconds = 0;      ///< per sample; at least, unless simulated
    double bytes = 0;        ///< at least
    bool simulated = false;  ///< in full
};

struct SearchResult {
    std::vector<Found> best;  ///< the fastest first
    /// For each share of memory_corners, the fastest candidate within it; none if nothing fits.
    std::array<std::optional<Found>, memory_corners.size()> corners;
    SearchCounts counts;
    std::vector<CandidatePoint> points;  ///< of all that may fit
    std::vector<std::pair<KeyValue, ValueOutcome>> outcomes;
};

/// Finds the `count` candidates with the fewest seconds per sample that fit, which are exactly
/// those that a simulation of every candidate would give: a candidate is left out only if a lower
/// bound of its time is above theirs, or a lower bound of its memory above the capacity. What only
/// saves memory (search/savings.h) is a candidate where the same settings without it do not fit.
/// The bounds are refined in steps, best first: the work of the most loaded stage, the simulated
/// schedule, and at last the step as recorded on the meter (planner/step_time.h).
SearchResult search(const SearchContext& context, const SearchSpace& space, std::int64_t count);

/// One candidate in full, whether it fits or not. Error (usage) if the spec's rules refuse it.
Found evaluate(const SearchContext& context, const Choices& choices);

}  // namespace gptrain
