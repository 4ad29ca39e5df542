// How a warpgroup's matrix multiply finds a bf16 operand in shared memory: the matrix descriptor of
// wgmma (PTX ISA, "Asynchronous warpgroup level matrix shared memory layout").
#pragma once

#include <cstdint>

namespace gptrain::cuda {

/// The contiguous dim of an operand: k, the reduction dim, or the other one.
enum class Major { k, mn };

/// A bf16 operand in shared memory, stored in panels: rows of 64 contiguous elements (128 bytes),
/// one after the other, with the 16-byte pieces of a row swizzled as by swizzle_128. Each panel is
/// aligned to 1024 bytes. load_box writes this layout.
template <Major major>
struct Operand {
    /// Bits 0 to 13: the address in shared memory, 16 to 29: the distance from one panel to the
    /// next, 32 to 45: from 8 rows of a panel to the next, each divided by 16; 62 and 63: swizzled
    /// in rows of 128 bytes.
    std::uint64_t descriptor;

    /// The operand `bytes` further on, a multiple of 16.
    constexpr Operand later(int bytes) const {
        return {descriptor + static_cast<std::uint64_t>(bytes / 16)};
    }
};

namespace detail {
constexpr std::uint64_t operand_descriptor(std::uint32_t shared_address, int panel_bytes) {
    constexpr int bytes_of_8_rows = 1024;
    constexpr std::uint64_t swizzle_of_128_bytes = std::uint64_t{1} << 62;
    const auto field = [](std::int64_t bytes) { return static_cast<std::uint64_t>(bytes / 16); };
    return field(shared_address) | field(panel_bytes) << 16 | field(bytes_of_8_rows) << 32 |
           swizzle_of_128_bytes;
}
}  // namespace detail

/// k contiguous: rows of the panel are rows m or n of the operand. The address is that of any
/// multiple of 8 rows in the panel. The operand has the first 16 columns; later(2 k) has those from
/// k on, a multiple of 16 below 64. Operands of more than 8 rows continue with the following rows.
constexpr Operand<Major::k> k_major(std::uint32_t shared_address) {
    // All of k is in one panel: the distance is not used, and 16 by convention.
    return {detail::operand_descriptor(shared_address, 16)};
}
/// m or n contiguous: rows of the panel are k. The address is that of any multiple of 8 rows; the
/// operand has the 16 rows from there on. Operands wider than 64 continue in panels `panel_bytes`
/// apart.
constexpr Operand<Major::mn> mn_major(std::uint32_t shared_address, int panel_bytes) {
    return {detail::operand_descriptor(shared_address, panel_bytes)};
}

}  // namespace gptrain::cuda
