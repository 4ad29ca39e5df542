// The backends that this executable was built with.
#pragma once

#include <memory>
#include <vector>

#include "backend/backend.h"

namespace gptrain {

std::vector<std::unique_ptr<Backend>> built_backends();

/// How often a call is made: its bits must be the same each time.
int repetitions();
/// From now on calls are the ones of that repetition, 0 at first: the emulator takes threads and
/// blocks in another order in each.
void begin_repetition(int repetition);

}  // namespace gptrain
