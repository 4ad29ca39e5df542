// The backends that this executable was built with.
#pragma once

#include <memory>
#include <vector>

#include "backend/backend.h"

namespace gptrain {

std::vector<std::unique_ptr<Backend>> built_backends();

}  // namespace gptrain
