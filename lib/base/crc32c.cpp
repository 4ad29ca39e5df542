#include "base/crc32c.h"

#include <array>
#include <cstring>
#include <immintrin.h>

namespace gptrain {
namespace {

constexpr std::uint32_t polynomial = 0x82F63B78u;  // reflected

using Matrix = std::array<std::uint32_t, 32>;  // column i is the image of bit i, over GF(2)

constexpr std::uint32_t times(const Matrix& matrix, std::uint32_t vector) {
    std::uint32_t sum = 0;
    for (int bit = 0; vector != 0; ++bit, vector >>= 1) {
        if ((vector & 1u) != 0) sum ^= matrix[bit];
    }
    return sum;
}

constexpr Matrix squared(const Matrix& matrix) {
    Matrix result{};
    for (int bit = 0; bit < 32; ++bit)
        result[bit] = times(matrix, matrix[bit]);
    return result;
}

/// The effect of one zero bit on the register.
constexpr Matrix one_zero_bit() {
    Matrix matrix{};
    matrix[0] = polynomial;
    for (int bit = 1; bit < 32; ++bit)
        matrix[bit] = 1u << (bit - 1);
    return matrix;
}

/// The effect of `bytes` zero bytes on the register `crc`.
constexpr std::uint32_t append_zeros(std::uint32_t crc, std::uint64_t bytes) {
    Matrix matrix = squared(squared(squared(one_zero_bit())));
    for (; bytes != 0; bytes >>= 1) {
        if ((bytes & 1u) != 0) crc = times(matrix, crc);
        matrix = squared(matrix);
    }
    return crc;
}

/// Bytes of a lane of the hardware loop.
constexpr std::size_t lane_bytes = 4096;

/// The effect of `lane_bytes` zero bytes on the register, as one table for each of its bytes.
constexpr auto make_lane_shift() {
    Matrix matrix = squared(squared(squared(one_zero_bit())));
    for (std::size_t n = lane_bytes; n > 1; n /= 2)
        matrix = squared(matrix);
    std::array<std::array<std::uint32_t, 256>, 4> table{};
    for (int byte = 0; byte < 4; ++byte) {
        for (std::uint32_t value = 0; value < 256; ++value) {
            table[byte][value] = times(matrix, value << (8 * byte));
        }
    }
    return table;
}
constexpr auto lane_shift = make_lane_shift();

std::uint32_t shift_lane(std::uint32_t crc) {
    return lane_shift[0][crc & 0xff] ^ lane_shift[1][(crc >> 8) & 0xff] ^
           lane_shift[2][(crc >> 16) & 0xff] ^ lane_shift[3][crc >> 24];
}

constexpr auto make_byte_table() {
    std::array<std::uint32_t, 256> table{};
    for (std::uint32_t value = 0; value < 256; ++value) {
        std::uint32_t crc = value;
        for (int bit = 0; bit < 8; ++bit)
            crc = (crc >> 1) ^ ((crc & 1u) != 0 ? polynomial : 0u);
        table[value] = crc;
    }
    return table;
}
constexpr auto byte_table = make_byte_table();

std::uint32_t portable(std::uint32_t crc, const unsigned char* data, std::size_t bytes) {
    for (; bytes > 0; ++data, --bytes)
        crc = byte_table[(crc ^ *data) & 0xff] ^ (crc >> 8);
    return crc;
}

std::uint64_t load64(const unsigned char* data) {
    std::uint64_t word = 0;
    std::memcpy(&word, data, sizeof word);
    return word;
}

/// The crc32 instruction has a latency of three cycles and a throughput of one, so three lanes of
/// the input are processed in parallel and combined with the shift table.
__attribute__((target("sse4.2"))) std::uint32_t hardware(std::uint32_t crc,
                                                         const unsigned char* data,
                                                         std::size_t bytes) {
    std::uint64_t first = crc;
    while (bytes >= 3 * lane_bytes) {
        std::uint64_t second = 0;
        std::uint64_t third = 0;
        for (std::size_t i = 0; i < lane_bytes; i += 8) {
            first = _mm_crc32_u64(first, load64(data + i));
            second = _mm_crc32_u64(second, load64(data + lane_bytes + i));
            third = _mm_crc32_u64(third, load64(data + 2 * lane_bytes + i));
        }
        first = shift_lane(static_cast<std::uint32_t>(first)) ^ second;
        first = shift_lane(static_cast<std::uint32_t>(first)) ^ third;
        data += 3 * lane_bytes;
        bytes -= 3 * lane_bytes;
    }
    for (; bytes >= 8; data += 8, bytes -= 8)
        first = _mm_crc32_u64(first, load64(data));
    for (; bytes > 0; ++data, --bytes) {
        first = _mm_crc32_u8(static_cast<std::uint32_t>(first), *data);
    }
    return static_cast<std::uint32_t>(first);
}

}  // namespace

std::uint32_t crc32c(const void* data, std::size_t bytes, std::uint32_t before) {
    static const bool has_instruction = __builtin_cpu_supports("sse4.2") != 0;
    const auto* from = static_cast<const unsigned char*>(data);
    return ~(has_instruction ? hardware(~before, from, bytes) : portable(~before, from, bytes));
}

std::uint32_t crc32c_combine(std::uint32_t first, std::uint32_t second,
                             std::uint64_t second_bytes) {
    return append_zeros(first, second_bytes) ^ second;
}

std::uint32_t crc32c_part(std::span<const std::byte> part, std::uint64_t bytes_after) {
    return append_zeros(crc32c(part.data(), part.size()), bytes_after);
}

}  // namespace gptrain
