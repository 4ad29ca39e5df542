#include "schedule/mesh_links.h"

#include <algorithm>

namespace gptrain {

MeshLinks mesh_links(const RunPlan& plan) {
    MeshLinks links;
    links.kv_sharers = std::max<std::int64_t>(plan.mesh.tensor / plan.model.groups, 1);
    return links;
}

}  // namespace gptrain
