// AdamW with moments in bf16 or 8 bits, or bf16 main parameters (formula: step_ops.h).
#pragma once

#include "cpu/adamw_step.h"

namespace gptrain::cpu {

/// True unless moments and main parameter are fp32.
inline bool is_small(const AdamWPiece& piece) {
    return piece.exp_avg.dtype() != DType::f32 || piece.main_param.dtype() != DType::f32;
}

/// The things that random bits depend on, besides the tensor and the element.
struct RoundedStep {
    std::uint64_t seed = 0;
    std::int64_t step = 0;
};

/// Updates a piece that is small.
void update_small(const AdamWPiece& piece, const AdamWStep& constants, const RoundedStep& rounded);

}  // namespace gptrain::cpu
