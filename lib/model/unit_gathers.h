// Gathers the weights of a unit from the ranks that keep them.
#pragma once

#include "backend/backend.h"
#include "comm/mesh.h"
#include "model/parameters.h"

namespace gptrain {

/// The messages of each unit, for Parameters::gather_with: an all-gather for each bucket, or of
/// whole parameters a broadcast from each owner. The arguments must outlive the result.
Parameters::Gather unit_gathers(Backend& backend, const Mesh& mesh, const Parameters& parameters);

}  // namespace gptrain
