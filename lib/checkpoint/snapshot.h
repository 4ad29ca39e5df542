// The copy that an asynchronous save writes.
#pragma once

#include <span>
#include <vector>

#include "backend/backend.h"
#include "checkpoint/state_source.h"

namespace gptrain {

/// Host memory for a copy of each state, in order. The meter calls it to count the same bytes.
std::vector<Tensor> allocate_snapshot(Arena& arena, std::span<const HeldState> states);

/// Copies each state; complete when it returns.
void take_snapshot(Backend& backend, std::span<const Tensor> snapshot,
                   std::span<const HeldState> states);

}  // namespace gptrain
