// The rows of experts: their order, and their way from and to the tokens.
#pragma once

#include "backend/ops.h"

namespace gptrain::cpu {

void run(const GroupByExpert& args);
void run(const PlaceRows& args);
void run(const GatherRows& args);
void run(const CombineRows& args);
void run(const WeightRows& args);
void run(const GateRows& args);
void run(const GateRowsBackward& args);

}  // namespace gptrain::cpu
