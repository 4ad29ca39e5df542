// Muon's momentum and update, without its GEMMs (formulas: muon_ops.h).
#pragma once

#include "backend/ops.h"
#include "cuda/runtime/context.h"

namespace gptrain::cuda {

void run(const MuonMomentum& args, const OpContext& context);
void run(const Normalise& args, const OpContext& context);
void run(const Combine& args, const OpContext& context);
void run(const MuonUpdate& args, const OpContext& context);

}  // namespace gptrain::cuda
