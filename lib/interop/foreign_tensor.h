// A tensor of another program's file in terms of ours.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tensor/shape.h"

namespace gptrain {

/// The rows of a file's stack that hold the rows of one of our tensors.
struct StackRows {
    std::int64_t first = 0;
    std::int64_t block = 0;   ///< rows that follow each other; 0: all of them
    std::int64_t stride = 0;  ///< from the first row of a block to that of the next
    /// If not 0: the rows of a head. The file has the first `turned` of them in pairs, one of their
    /// first half and one of their second half, as rotations of neighbouring features need.
    std::int64_t head = 0;
    std::int64_t turned = 0;

    /// The row of the stack that holds a row of ours.
    std::int64_t at(std::int64_t row) const {
        row = paired(row);
        return block == 0 ? first + row : first + row / block * stride + row % block;
    }
    bool contiguous() const { return block == 0 && head == 0; }

private:
    std::int64_t paired(std::int64_t row) const {
        if (head == 0 || row % head >= turned) return row;
        const std::int64_t half = turned / 2;
        const std::int64_t feature = row % head;
        return row - feature + (feature < half ? 2 * feature : 2 * (feature - half) + 1);
    }
};

/// One of our tensors, or the matrix or vector of one expert in it.
struct TensorPart {
    std::string name;
    std::optional<std::int64_t> expert = {};
    StackRows rows = {};
};

/// A tensor of another program's file: a stack of ours, or zeros where our model has nothing.
struct ForeignTensor {
    std::string name;
    Shape shape;  ///< as in the file
    /// Ours, in a stack [rows, columns]. None: every element is 0.
    std::vector<TensorPart> parts;
    bool transposed = false;  ///< the file holds the stack, or each of its matrices, as [in, out]
    std::int64_t spare_rows = 0;  ///< of the stack, which hold no part: written as 0, not read
    /// Ours = theirs * factor + addend. The factor is a power of 2.
    double addend = 0;
    double factor = 1;
    bool always_f32 = false;  ///< also among tensors of another dtype
};

}  // namespace gptrain
