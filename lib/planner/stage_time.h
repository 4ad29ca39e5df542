// The result of simulating a step.
#pragma once

#include <array>
#include <vector>

#include "planner/step_prices.h"
#include "planner/timeline.h"

namespace gptrain {

/// A stage of a step. Times are seconds since the first step's start.
struct StageTime {
    double begin = 0;  ///< the end of the step before
    double end = 0;
    std::array<double, spent_kinds> spent{};  ///< between them
};

struct StepTime {
    double seconds = 0;  ///< of a step, once steps follow each other
    /// The time of the stage that ends last, by category. Communication counts only while the stage
    /// waits for it; waiting for another stage is the bubble. The sum is `seconds`.
    std::array<double, spent_kinds> spent{};
    std::vector<StageTime> stages;
    Timeline timeline;

    double operator[](Spent what) const { return spent[static_cast<std::size_t>(what)]; }
};

/// The step of these stages, without its timeline.
StepTime step_of(std::vector<StageTime> stages);

}  // namespace gptrain
