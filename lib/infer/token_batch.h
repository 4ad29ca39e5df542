// Tokens on their way into a model that continues texts.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "infer/inference.h"

namespace gptrain {

/// Token ids and positions in backend memory.
class TokenBatch {
public:
    /// For at most `rows` tokens. The plan must outlive it.
    TokenBatch(Arena& arena, const RunPlan& plan, std::int64_t rows);

    /// The tokens of a batch, in row-major order, and their positions in their texts. The batch is
    /// valid until the next call.
    Batch upload(Backend& backend, const Shape& shape, std::span<const std::int32_t> tokens,
                 std::vector<std::int32_t> positions) const;

private:
    const RunPlan& plan_;
    Batch all_;  ///< [1, rows]
};

}  // namespace gptrain
