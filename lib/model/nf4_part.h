// A rank's part of a matrix in NF4, whose blocks are those of the whole matrix.
#pragma once

#include "base/nf4.h"
#include "tensor/shard.h"

namespace gptrain {

/// 1, or the number of experts.
inline std::int64_t matrices_of(const Shard& shard) {
    return shard.box.extent.rank() == 3 ? shard.box.extent[0] : 1;
}

/// The rows and columns of each matrix, whole or on this rank.
struct MatrixShape {
    std::int64_t rows = 0;
    std::int64_t columns = 0;
    explicit MatrixShape(const Shape& shape)
        : rows(shape[shape.rank() - 2]), columns(shape[shape.rank() - 1]) {}
    std::int64_t elements() const { return rows * columns; }
    std::int64_t blocks() const { return div_ceil(elements(), nf4_block); }
};

/// True if the shard, a box of one matrix or of one of each expert, has whole blocks.
inline bool fits_nf4(const Shard& shard) {
    const MatrixShape part(shard.box.extent);
    const MatrixShape whole(shard.global);
    if (part.columns != whole.columns)
        return part.columns % nf4_block == 0 && whole.columns % nf4_block == 0;
    return part.elements() % nf4_block == 0 && whole.elements() % nf4_block == 0;
}

inline Nf4Part nf4_part(const Shard& shard) {
    const MatrixShape part(shard.box.extent);
    const MatrixShape whole(shard.global);
    const Shape& offset = shard.box.offset;
    const std::int64_t first =
        offset[offset.rank() - 2] * whole.columns + offset[offset.rank() - 1];
    const std::int64_t blocks = part.blocks();
    const bool cut = part.columns != whole.columns;
    return {.blocks = blocks,
            .first = first / nf4_block,
            .row_blocks = cut ? part.columns / nf4_block : blocks,
            .skipped = cut ? (whole.columns - part.columns) / nf4_block : 0,
            .factors = div_ceil(whole.blocks(), nf4_scale_block)};
}

/// The room of a tensor in the buffers of codes, scales and factors. `in_memory`: its shape on this
/// rank.
struct Nf4Size {
    std::int64_t codes = 0;
    std::int64_t scales = 0;
    std::int64_t factors = 0;
    Nf4Size(const Shard& shard, const Shape& in_memory, bool nested)
        : codes(in_memory.elements() / 2), scales(in_memory.elements() / nf4_block) {
        GPTRAIN_CHECK(fits_nf4(shard), shard.name, " in NF4");
        if (nested) factors = nf4_factors_size(matrices_of(shard), nf4_part(shard).factors);
    }
};

}  // namespace gptrain
