// The pipelines that the tests use.
#pragma once

#include <functional>

#include "planner/simulate.h"

namespace gptrain {

/// Every schedule with up to 8 stages, up to 4 virtual stages where it supports them, and numbers
/// of microbatches below, at and above what the stages can hold.
std::vector<PipelineShape> tested_shapes();

/// "1f1b p=4 v=1 m=8"
std::string name_of(const PipelineShape& shape);

/// F, B and W of every chunk take one second, messages no time.
PipelineCosts unit_costs(const PipelineShape& shape);
double unit_bubble(const Pipeline& pipeline);

}  // namespace gptrain
