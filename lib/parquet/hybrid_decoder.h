// Parquet's hybrid of run lengths and bit packing: levels, indexes of a dictionary, booleans.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace gptrain {

/// Decodes numbers of `width` bits (0 to 32), one after another. With a width of 0 all are 0 and
/// take no bytes. Errors (bad_input) have no place.
class HybridDecoder {
public:
    HybridDecoder() = default;
    HybridDecoder(std::span<const std::byte> bytes, int width);

    /// Error if the data has no more.
    std::uint32_t next() {
        if (left_ == 0) begin_run();
        --left_;
        return packed_ ? unpack() : value_;
    }

private:
    void begin_run();
    std::uint32_t unpack();
    std::uint64_t varint();

    std::span<const std::byte> bytes_;
    std::size_t at_ = 0;
    int width_ = 0;
    std::uint64_t left_ = 0;  ///< in the run
    bool packed_ = false;
    std::uint32_t value_ = 0;  ///< of a run of one value
    std::uint64_t bit_ = 0;    ///< of a packed run: where its next value begins, from at_ on
    std::uint64_t bits_ = 0;   ///< of a packed run: its end
};

/// The bits that hold the numbers up to `most`.
int bits_for(int most);

}  // namespace gptrain
