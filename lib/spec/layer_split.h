// The layers of the chunks of a model whose layers are of two kinds.
#pragma once

#include <cstdint>
#include <vector>

#include "spec/run_plan.h"

namespace gptrain {

/// How many layers each of `chunks` chunks has, at least one, so that the chunk with the most work
/// has as little as possible. The last one has the head as well.
std::vector<std::int64_t> split_by_work(const ModelShape& model, std::int64_t seq_length,
                                        std::int64_t chunks);

}  // namespace gptrain
