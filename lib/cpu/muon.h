// Muon's momentum and update, without its GEMMs (formulas: muon_ops.h).
#pragma once

#include "backend/ops.h"

namespace gptrain::cpu {

void run(const MuonMomentum& args);
void run(const Normalise& args);
void run(const Combine& args);
void run(const MuonUpdate& args);

}  // namespace gptrain::cpu
