// Brings weights to the ranks that compute with them, from those that keep or have updated them.
#pragma once

#include "backend/backend.h"
#include "backend/memory.h"
#include "comm/mesh.h"
#include "model/ownership.h"
#include "model/parameters.h"

namespace gptrain {

/// Starts a message: an all-gather of a bucket, or the broadcast of whole parameters by their
/// owner.
Pending send_weights(Backend& backend, const Mesh& mesh, const Parameters& parameters,
                     const WeightMessage& message);

/// For Parameters::gather_with. FP8 groups with one scale for a matrix are gathered in FP8: owners
/// convert their parts, by the largest values of find_amaxes, and the columns are made of the
/// gathered rows. Others are converted once they are there. The arguments must outlive the result.
Parameters::Gather unit_gathers(Backend& backend, Memory& memory, const Mesh& mesh,
                                const Parameters& parameters);

/// Finds the largest absolute values of what is gathered in FP8; call it after every update.
void find_amaxes(Backend& backend, const Mesh& mesh, const Parameters& parameters);

}  // namespace gptrain
