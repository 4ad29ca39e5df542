// The operands of products of a few rows with the rows of a weight.
#pragma once

#include "base/nf4.h"
#include "tensor/dtype_switch.h"

namespace gptrain::cpu {

/// y = x weight^T + bias, or += that. T is float, Bf16 or F16, the dtype of x and y.
template <class T>
struct FewRows {
    Rows<T> x;
    Rows<T> y;
    const T* bias;  ///< of the outputs, or null
    std::int64_t count;
    std::int64_t length;  ///< of the rows of x and of the weight
    bool accumulate;
};

/// A weight in blocks of `block` elements of a row that share a scale.
struct Int8Rows {
    Rows<std::int8_t> values;
    Rows<float> scales;
    std::int64_t block;
};

/// A weight in NF4, whose rows are whole blocks.
struct Nf4Rows {
    const std::uint8_t* codes;
    Nf4Scales scales;
};

/// Outputs that are computed together: ranges are fastest in multiples of it.
constexpr int outputs_at_once = 4;

}  // namespace gptrain::cpu
