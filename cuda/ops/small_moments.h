// AdamW with moments in bf16 or 8 bits, or bf16 main parameters (formula: step_ops.h).
#pragma once

#include "backend/ops.h"
#include "cuda/ops/adamw_update.cuh"
#include "cuda/runtime/context.h"

namespace gptrain::cuda {

/// True unless moments and main parameter are fp32.
inline bool is_small(const AdamWPiece& piece) {
    return piece.exp_avg.dtype() != DType::f32 || piece.main_param.dtype() != DType::f32;
}

/// Updates the pieces that are small.
void update_small_pieces(const AdamW& args, const AdamWUpdate* update, const OpContext& context);

}  // namespace gptrain::cuda
