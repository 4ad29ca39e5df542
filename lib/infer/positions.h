// How long a text a model can write.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "spec/run_plan.h"

namespace gptrain {

/// The number of positions of a text, without virtual tokens. Rotary positions have no limit, but
/// at 64 times the trained ones a model writes nothing useful, so a text ends there.
std::int64_t last_position(const ModelShape& model);

/// The key that sets it, for messages: " (64 times model.max_position_embeddings)".
std::string source_of_positions(const ModelShape& model);

/// The positions that a text of the trained length has, without virtual tokens.
std::int64_t trained_positions(const ModelShape& model);

/// The positions of a text that --context asks for. Error (usage) if the model has fewer. By
/// default those that it was trained with, at most `most`.
std::int64_t context_limit(const ModelShape& model, const std::optional<std::int64_t>& asked,
                           std::int64_t most);

}  // namespace gptrain
