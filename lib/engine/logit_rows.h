// Logits on their way out of the model.
#pragma once

#include <cstdint>

#include "model/context.h"

namespace gptrain {

/// Logits [R, V], each rank of tp with its columns, on the stage with the head.
class LogitRows {
public:
    LogitRows() = default;
    /// Room for `rows` rows. The context must outlive it.
    LogitRows(Arena& arena, const ModelContext& context, std::int64_t rows);

    /// This rank's columns of the first `rows` rows.
    Tensor own(std::int64_t rows) const;
    /// The first rows as fp32 [rows, V] with padding, V of all ranks; nothing on ranks above 0 of
    /// tp. All ranks of tp call it together, after the head has written own(rows).
    Tensor gather(std::int64_t rows) const;

private:
    const ModelContext* context_ = nullptr;
    Tensor logits_;  ///< compute dtype
    Tensor f32_;
};

}  // namespace gptrain
