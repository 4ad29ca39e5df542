// FP8 matrices (formulas: value_ops.h). For correctness checks, not for speed.
#pragma once

#include "backend/ops.h"

namespace gptrain::cpu {

void run(const UpdateAmax& args);
void run(const ToFp8& args);
void run(const ToFp8Rows& args);
void run(const ToFp8Columns& args);
void run(const ToFp8Blocks& args);
void run(const TransposeFp8& args);

/// Row `row` of `out` as ToFp8Rows makes it from x.
template <class T>
void to_fp8_row(const T* x, const Fp8Matrix& out, std::int64_t row);

}  // namespace gptrain::cpu
