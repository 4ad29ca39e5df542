// Philox 4x32-10, the counter-based generator of Salmon et al., "Parallel random numbers: as easy
// as 1, 2, 3" (SC11). Every random number of a run is a pure function of its coordinates.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace gptrain {

using PhiloxBlock = std::array<std::uint32_t, 4>;

struct PhiloxKey {
    std::uint32_t low;
    std::uint32_t high;
};

/// Four independent uniform 32-bit words for a counter value.
constexpr PhiloxBlock philox(PhiloxBlock counter, PhiloxKey key) {
    for (int round = 0; round < 10; ++round) {
        const std::uint64_t a = std::uint64_t{0xD2511F53u} * counter[0];
        const std::uint64_t b = std::uint64_t{0xCD9E8D57u} * counter[2];
        counter = {static_cast<std::uint32_t>(b >> 32) ^ counter[1] ^ key.low,
                   static_cast<std::uint32_t>(b),
                   static_cast<std::uint32_t>(a >> 32) ^ counter[3] ^ key.high,
                   static_cast<std::uint32_t>(a)};
        key.low += 0x9E3779B9u;
        key.high += 0xBB67AE85u;
    }
    return counter;
}

/// The key of a random stream: `seed` identifies the run, the three coordinates the stream.
constexpr PhiloxKey philox_stream(std::uint64_t seed, std::uint64_t a, std::uint32_t b,
                                  std::uint32_t c) {
    const PhiloxBlock mixed =
        philox({static_cast<std::uint32_t>(a), static_cast<std::uint32_t>(a >> 32), b, c},
               {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
    return {mixed[0], mixed[1]};
}

/// 64-bit FNV-1a; turns tensor names into stream coordinates.
constexpr std::uint64_t name_hash(std::string_view name) {
    std::uint64_t hash = 0xcbf29ce484222325ull;
    for (const char c : name) {
        hash ^= static_cast<unsigned char>(c);
        hash *= 0x100000001b3ull;
    }
    return hash;
}

}  // namespace gptrain
