// The matrix that the hardware reads through a matrix descriptor, by the documents alone (PTX ISA,
// "Asynchronous warpgroup level matrix shared memory layout").
#pragma once

#include <cstdint>

#include "emulator/grid.h"

namespace gptrain::emulator {

/// Where the elements of a bf16 operand are.
class OperandLayout {
public:
    /// A fault unless the descriptor means rows of 128 bytes, swizzled, whose pattern of 8 rows
    /// begins at a multiple of 1024 bytes.
    explicit OperandLayout(const SharedOperand& operand);

    /// Offset of element (i, k) in the block's shared memory. i counts rows m or columns n.
    std::int64_t offset(int i, int k) const;

private:
    bool k_major_;
    std::int64_t address_;
    std::int64_t leading_bytes_;
    std::int64_t stride_bytes_;
};

}  // namespace gptrain::emulator
