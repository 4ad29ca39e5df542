// Byte pair encoding of one word, by ranked merges.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/large_pages.h"

namespace gptrain {

/// Two ids that become one.
struct BpeMerge {
    std::int32_t left = 0;
    std::int32_t right = 0;
    std::int32_t whole = 0;
};

/// The merges of a model, in the order of their ranks.
class BpeMerges {
public:
    /// `byte_ids`: the id of each byte. If a pair is listed twice, the last entry wins.
    BpeMerges(const std::array<std::int32_t, 256>& byte_ids, std::vector<BpeMerge> merges);

    /// Appends the ids of a word: its bytes, of which the pair with the lowest rank (of equal ones
    /// the leftmost) is merged until none is left. Takes n log n steps.
    void encode(std::string_view word, std::vector<std::int32_t>& out) const;
    /// The same for a word that is not made of bytes: `ids` are its symbols.
    void encode(std::span<const std::int32_t> ids, std::vector<std::int32_t>& out) const;

private:
    /// The rank in the upper half, below it the id of the whole: the smallest is merged first.
    using Merge = std::uint64_t;
    static constexpr Merge no_merge = ~Merge{0};

    struct Slot {
        std::uint64_t pair = ~std::uint64_t{0};
        Merge merge = no_merge;
    };

    Merge merge_of(std::int32_t left, std::int32_t right) const;
    /// `merges`: of each id and the next.
    void merge_short(std::int32_t* ids, Merge* merges, std::size_t count,
                     std::vector<std::int32_t>& out) const;
    void merge_long(std::span<const std::int32_t> ids, std::vector<std::int32_t>& out) const;

    std::array<std::int32_t, 256> byte_ids_;
    std::vector<Merge> byte_merges_;             ///< [256, 256]: of two bytes
    std::vector<Slot, LargePages<Slot>> slots_;  ///< of two ids: a hash table, open addressing
    std::vector<std::uint64_t> filter_;          ///< a Bloom filter of the pairs: most have no slot
    int shift_ = 0;                              ///< of a hash, to a slot
};

}  // namespace gptrain
