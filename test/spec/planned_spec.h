// Plans of the smallest valid spec with some settings, and the message on invalid settings.
#pragma once

#include <string>
#include <vector>

#include "minimal_spec.h"
#include "spec/make_plan.h"

namespace gptrain::test {

inline RunPlan plan_of(const std::vector<std::string>& settings, const PlanTarget& target = {}) {
    return make_plan(minimal(settings), target);
}

/// The message without the location of the key.
inline std::string contradiction(const std::vector<std::string>& settings,
                                 const PlanTarget& target = {}) {
    RunSpec spec = minimal(settings);
    spec.locations = {};
    return usage_fault([&] { make_plan(spec, target); });
}

inline bool holds(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

}  // namespace gptrain::test
