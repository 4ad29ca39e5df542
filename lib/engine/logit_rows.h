// Logits on their way out of the model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

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

    /// Gathers the first rows and calls take(row, logits [V]) for each of them, V without padding,
    /// on rank 0 of tp. All ranks of tp call it together.
    using Take = std::function<void(std::size_t row, std::span<const float> logits)>;
    void download(std::int64_t rows, std::int64_t vocab, const Take& take) const;

private:
    const ModelContext* context_ = nullptr;
    Tensor logits_;  ///< compute dtype
    Tensor f32_;
};

}  // namespace gptrain
