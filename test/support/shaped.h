// Tensors without memory, for code that depends only on their layout.
#pragma once

#include <cstdint>

#include "backend/value_ops.h"

namespace gptrain::test {

inline Tensor shaped(DType dtype, const Shape& shape, std::intptr_t address = 256) {
    return {reinterpret_cast<std::byte*>(address), dtype, shape};
}

/// A matrix in FP8, stored both ways.
inline Fp8Matrix shaped_fp8(DType dtype, std::int64_t rows, std::int64_t columns) {
    return {.rowwise = shaped(dtype, {rows, columns}),
            .columnwise = shaped(dtype, {columns, rows}),
            .scale = shaped(DType::f32, {1}, 512)};
}

}  // namespace gptrain::test
