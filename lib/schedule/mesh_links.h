// What a run's model and schedule ask of its mesh.
#pragma once

#include "comm/mesh.h"
#include "spec/run_plan.h"

namespace gptrain {

MeshLinks mesh_links(const RunPlan& plan);

}  // namespace gptrain
