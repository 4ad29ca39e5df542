#include "planner/stage_time.h"

#include <utility>

namespace gptrain {

StepTime step_of(std::vector<StageTime> stages) {
    const StageTime* last = &stages.front();
    for (const StageTime& stage : stages)
        if (stage.end > last->end) last = &stage;
    StepTime step;
    step.seconds = last->end - last->begin;
    step.spent = last->spent;
    step.stages = std::move(stages);
    return step;
}

}  // namespace gptrain
