// Loads weights one at a time through a shared buffer.
#pragma once

#include <functional>
#include <span>

#include "checkpoint/state_source.h"
#include "stored/model_source.h"

namespace gptrain {

/// Fills the states in order and notifies each when its values are there, or gives it the matrix as
/// it is stored in NF4. If a checkpoint turns out
/// to be damaged, starts again with the next one, which `check_candidate` may refuse by throwing an
/// Error. All ranks call it together.
void load_streamed(ModelSource& source, Backend& backend, const MpiSession& ranks,
                   std::span<const StreamedState> states,
                   const std::function<void()>& check_candidate);

}  // namespace gptrain
