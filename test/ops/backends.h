// The backends that this executable was built with.
#pragma once

#include <memory>
#include <vector>

#include "backend/backend.h"
#include "op_case.h"

namespace gptrain {

std::vector<std::unique_ptr<Backend>> built_backends();

/// False for ops that these backends run like others that are tested elsewhere.
bool is_tested(const OpCase& op);

/// How often the call is repeated; its bits must be the same each time.
int repetitions(const OpCase& op);
/// Announces the repetition of the calls that follow, from 0: in each, the emulator runs threads
/// and blocks in another order.
void begin_repetition(int repetition);

}  // namespace gptrain
