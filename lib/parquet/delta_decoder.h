// Parquet's DELTA_BINARY_PACKED: integers as packed differences.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace gptrain {

/// Decodes integers of 64 bits, one after another; differences wrap. Errors (bad_input) have no
/// place.
class DeltaDecoder {
public:
    explicit DeltaDecoder(std::span<const std::byte> bytes);

    /// How many it has, as the data states.
    std::uint64_t count() const { return count_; }
    /// How many of them have not been read.
    std::uint64_t left() const { return left_; }
    /// Error if there are no more.
    std::int64_t next();
    /// The bytes that all of them take. Walks over the rest of the data; nothing is decoded.
    std::size_t size() const;

private:
    std::uint8_t byte();
    std::uint64_t varint();
    std::uint64_t zigzag();
    void begin_block();
    void begin_miniblock();

    std::span<const std::byte> bytes_;
    std::size_t at_ = 0;
    std::uint64_t miniblocks_ = 0;      ///< in a block
    std::uint64_t miniblock_size_ = 0;  ///< values in a miniblock
    std::uint64_t count_ = 0;
    std::uint64_t left_ = 0;
    std::uint64_t value_ = 0;  ///< the next one
    std::uint64_t least_ = 0;  ///< the smallest difference in the block
    std::size_t widths_ = 0;   ///< where the widths of the block's miniblocks are
    std::uint64_t miniblock_ = 0;
    unsigned width_ = 0;
    std::uint64_t in_miniblock_ = 0;  ///< differences left in the miniblock
    std::uint64_t bit_ = 0;           ///< of the next difference, from at_ on
};

}  // namespace gptrain
