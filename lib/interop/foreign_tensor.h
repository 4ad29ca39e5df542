// A tensor of another program's file in terms of ours.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tensor/shape.h"

namespace gptrain {

/// One of our tensors, or the matrix of one expert in it.
struct TensorPart {
    std::string name;
    std::optional<std::int64_t> expert = {};
};

/// A tensor of another program's file: a stack of ours, or zeros where our model has nothing.
struct ForeignTensor {
    std::string name;
    Shape shape;  ///< as in the file
    /// Ours, stacked along dim 0. None: every element is 0.
    std::vector<TensorPart> parts;
    bool transposed = false;  ///< the file holds the stack as [in, out]
    /// If not 0: the rows of each head, of which the file takes one of the first half, one of the
    /// second half, and so on.
    std::int64_t interleaved = 0;
    bool always_f32 = false;  ///< also among tensors of another dtype
};

}  // namespace gptrain
