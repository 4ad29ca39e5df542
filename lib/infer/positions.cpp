#include "infer/positions.h"

#include <algorithm>

#include "base/checked.h"
#include "base/text.h"

namespace gptrain {
namespace {

constexpr std::int64_t rope_position_factor = 64;

bool has_learned_positions(const ModelShape& model) {
    return model.position_embedding == PositionEmbedding::learned;
}

}  // namespace

std::int64_t last_position(const ModelShape& model) {
    const std::int64_t all = has_learned_positions(model)
                                 ? model.max_positions
                                 : checked_mul(rope_position_factor, model.max_positions);
    return all - model.virtual_tokens();
}

std::string source_of_positions(const ModelShape& model) {
    return text(" (", has_learned_positions(model) ? "" : text(rope_position_factor, " times "),
                "model.max_position_embeddings",
                model.prompt ? " less adapter.virtual_tokens)" : ")");
}

std::int64_t trained_positions(const ModelShape& model) {
    return model.max_positions - model.virtual_tokens();
}

std::int64_t context_limit(const ModelShape& model, const std::optional<std::int64_t>& asked,
                           std::int64_t most) {
    const std::int64_t last = last_position(model);
    if (asked && *asked > last) {
        fail(ExitCode::usage, "--context ", *asked, ": the model has only ", last, " positions",
             source_of_positions(model));
    }
    return asked.value_or(std::min(trained_positions(model), most));
}

}  // namespace gptrain
