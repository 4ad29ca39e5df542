// NF4: matrices in 4 bits an element (Dettmers et al. 2023, "QLoRA", arXiv 2305.14314), with the
// formulas and the packing of bitsandbytes. The row-major elements of a whole matrix are cut into
// blocks of nf4_block, each with the largest absolute value of its elements as its scale:
//   element = nf4_values[code] scale
// Two codes share a byte, the first in its high half. Nested scales take 8 bits, in blocks of
// nf4_scale_block, each with a factor of its own:
//   scale = map[code] factor + offset
// Both are in fp32, rounded after each operation.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace gptrain {

constexpr std::int64_t nf4_block = 64;         ///< elements that share a scale
constexpr std::int64_t nf4_scale_block = 256;  ///< scales that share a factor
constexpr std::int64_t nf4_map_size = 256;     ///< values of a scale's code

constexpr std::array<float, 16> nf4_values = {
    -1.0F,
    -0.6961928009986877F,
    -0.5250730514526367F,
    -0.39491748809814453F,
    -0.28444138169288635F,
    -0.18477343022823334F,
    -0.09105003625154495F,
    0.0F,
    0.07958029955625534F,
    0.16093020141124725F,
    0.24611230194568634F,
    0.33791524171829224F,
    0.44070982933044434F,
    0.5626170039176941F,
    0.7229568362236023F,
    1.0F,
};

/// The part of whole matrices that a rank holds, in whole blocks: some of their rows, or some
/// columns of every row.
struct Nf4Part {
    std::int64_t blocks = 1;      ///< of the part of one matrix
    std::int64_t first = 0;       ///< its first block in the whole matrix
    std::int64_t row_blocks = 1;  ///< of a row of the part, if it has some of the columns
    std::int64_t skipped = 0;     ///< blocks of the whole matrix from there to the next such row
    std::int64_t factors = 0;     ///< of a whole matrix, if its scales are nested

    /// The place in the whole matrix of a block of the part.
    [[gnu::always_inline]] constexpr std::int64_t whole(std::int64_t block) const {
        return first + block + block / row_blocks * skipped;
    }
};

/// The factors of nested scales of matrices that follow each other: the map, then for each matrix
/// its offset and its factors.
constexpr std::int64_t nf4_factors_size(std::int64_t matrices, std::int64_t factors) {
    return nf4_map_size + matrices * (1 + factors);
}

/// The scales of such parts, one matrix after the other. Inline in any case: sources for different
/// CPUs use it.
struct Nf4Scales {
    const float* scales = nullptr;        ///< null if they are nested
    const std::uint8_t* codes = nullptr;  ///< of nested scales
    const float* factors = nullptr;       ///< likewise (nf4_factors_size)
    Nf4Part part;

    [[gnu::always_inline]] constexpr float operator()(std::int64_t block) const {
        if (scales != nullptr) return scales[block];
        const std::int64_t matrix = block / part.blocks;
        const float* own = factors + nf4_map_size + matrix * (1 + part.factors);
        const std::int64_t place = part.whole(block % part.blocks);
        const float product = factors[codes[block]] * own[1 + place / nf4_scale_block];
        return product + own[0];
    }
};

/// One whole matrix, as files and the host hold it.
struct Nf4View {
    std::span<const std::byte> codes;   ///< [elements / 2]
    std::span<const std::byte> scales;  ///< fp32 [blocks], or nested: u8 [blocks]
    std::span<const float> factors;     ///< of nested scales, else empty

    bool nested() const { return !factors.empty(); }
    std::int64_t elements() const { return 2 * std::ssize(codes); }
    std::int64_t blocks() const { return (elements() + nf4_block - 1) / nf4_block; }
    float scale(std::int64_t block) const;
    /// to[i] = element first + i step
    void read(std::int64_t first, std::int64_t step, std::span<float> to) const;
};

struct Nf4Bytes {
    std::vector<std::byte> codes;
    std::vector<std::byte> scales;
    std::vector<float> factors;
    Nf4View view() const { return {codes, scales, factors}; }
};

/// The values of a scale's code in bitsandbytes: 0, 1, and the midpoints of 2^i equal parts of
/// [0.1, 1], times 10^(i - 6), with both signs, for i from 0 to 6. Ascending.
const std::array<float, nf4_map_size>& nf4_scale_map();

/// A whole matrix of an even number of elements. The code is that of the nearest value of x /
/// scale, as bitsandbytes bounds them. A block with an element that is not finite is NaN. With
/// `nested`, the offset is the mean of the scales, a factor the largest absolute value of (scale -
/// offset) in its block, and the code that of the value nearest to (scale - offset) / factor.
Nf4Bytes to_nf4(std::span<const float> x, bool nested);

/// The same matrix with nested scales, or with plain ones.
Nf4Bytes with_scales(const Nf4View& matrix, bool nested);

}  // namespace gptrain
