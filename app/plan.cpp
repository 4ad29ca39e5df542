#include "plan.h"

#include "base/error.h"

namespace gptrain {

RunPlan plan_of(const std::string& file, const RunSpec& spec, const PlanTarget& target) {
    try {
        return make_plan(spec, target);
    } catch (const Error& error) {
        fail(error.code(), file, ": ", error.what());
    }
}

}  // namespace gptrain
