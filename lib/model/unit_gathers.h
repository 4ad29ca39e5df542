// Brings weights to the ranks that compute with them, from those that keep or have updated them.
#pragma once

#include "backend/backend.h"
#include "comm/mesh.h"
#include "model/ownership.h"
#include "model/parameters.h"

namespace gptrain {

/// Starts a message: an all-gather of a bucket, or the broadcast of whole parameters by their
/// owner.
Pending send_weights(Backend& backend, const Mesh& mesh, const Parameters& parameters,
                     const WeightMessage& message);

/// The messages of each unit, for Parameters::gather_with. The arguments must outlive the result.
Parameters::Gather unit_gathers(Backend& backend, const Mesh& mesh, const Parameters& parameters);

}  // namespace gptrain
