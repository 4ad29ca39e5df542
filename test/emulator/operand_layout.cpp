#include "emulator/operand_layout.h"

#include "base/text.h"
#include "emulator/memory.h"

namespace gptrain::emulator {
namespace {

/// The fields in units of 16 bytes, by their lowest bit. Each has 14 bits.
constexpr int address_bit = 0;
constexpr int leading_bit = 16;
constexpr int stride_bit = 32;
constexpr int swizzle_bit = 62;
constexpr std::uint64_t field_bits = 0x3fff;
constexpr std::uint64_t swizzle_of_128_bytes = 1;
constexpr int row_bytes = 128;
constexpr int pattern_bytes = 8 * row_bytes;

std::int64_t field(std::uint64_t descriptor, int bit) {
    return static_cast<std::int64_t>(descriptor >> bit & field_bits) * 16;
}

}  // namespace

OperandLayout::OperandLayout(const SharedOperand& operand)
    : k_major_(operand.k_major),
      address_(field(operand.descriptor, address_bit)),
      leading_bytes_(field(operand.descriptor, leading_bit)),
      stride_bytes_(field(operand.descriptor, stride_bit)) {
    const std::uint64_t others =
        ~(field_bits << address_bit | field_bits << leading_bit | field_bits << stride_bit);
    if ((operand.descriptor & others) != swizzle_of_128_bytes << swizzle_bit) {
        fault(text("a matrix descriptor ", operand.descriptor,
                   " with other bits than those of a swizzle of 128 bytes"));
    }
    // The descriptor's base offset, which is 0, says so.
    if (address_ % pattern_bytes >= (k_major_ ? row_bytes : 16)) {
        fault(text("an operand that begins at ", address_, ", inside of a pattern of 8 rows"));
    }
}

std::int64_t OperandLayout::offset(int i, int k) const {
    // The canonical layouts for a swizzle of 128 bytes: ((8, m), (T, 2)) : ((8 T, stride), (1, T))
    // where k is contiguous, else ((T, 8, m), (8, 2)) : ((1, T, leading), (8 T, stride)). T is 8
    // elements, 16 bytes.
    const std::int64_t from_address =
        k_major_ ? i % 8 * row_bytes + i / 8 * stride_bytes_ + k * 2
                 : i % 64 * 2 + i / 64 * leading_bytes_ + k % 8 * row_bytes + k / 8 * stride_bytes_;
    const std::int64_t place = address_ + from_address;
    // The hardware swizzles addresses: it exchanges pieces of 16 bytes by the row's last 3 bits.
    return (place ^ (place / row_bytes % 8 * 16)) - first_shared_address;
}

}  // namespace gptrain::emulator
