#include "tokenizer/bpe_merges.h"

#include <bit>
#include <queue>

namespace gptrain {
namespace {

/// Up to here a search over all pairs is faster than a heap.
constexpr std::size_t short_word = 64;

std::uint64_t key_of(std::int32_t left, std::int32_t right) {
    return std::uint64_t{static_cast<std::uint32_t>(left)} << 32 |
           static_cast<std::uint32_t>(right);
}

std::uint64_t hash_of(std::uint64_t key) {
    return key * 0x9E3779B97F4A7C15u;
}

/// The two bits of a pair in a word of the filter.
std::uint64_t filter_bits(std::uint64_t hash) {
    return std::uint64_t{1} << (hash >> 32 & 63) | std::uint64_t{1} << (hash >> 38 & 63);
}

std::int32_t whole_of(std::uint64_t merge) {
    return static_cast<std::int32_t>(merge & 0xFFFFFFFFu);
}

}  // namespace

BpeMerges::BpeMerges(const std::array<std::int32_t, 256>& byte_ids, std::vector<BpeMerge> merges)
    : byte_ids_(byte_ids), byte_merges_(std::size_t{256} * 256, no_merge) {
    const int bits = static_cast<int>(std::bit_width(merges.size() * 4 / 3 + 1));
    slots_.resize(std::size_t{1} << bits);
    filter_.resize(slots_.size() / 16 + 1);
    shift_ = 64 - bits;
    for (std::size_t rank = 0; rank < merges.size(); ++rank) {
        const std::uint64_t key = key_of(merges[rank].left, merges[rank].right);
        const std::uint64_t hash = hash_of(key);
        std::size_t at = hash >> shift_;
        filter_[at / 16] |= filter_bits(hash);
        while (slots_[at].merge != no_merge && slots_[at].pair != key)
            at = (at + 1) & (slots_.size() - 1);
        slots_[at] = {key, rank << 32 | static_cast<std::uint32_t>(merges[rank].whole)};
    }
    for (std::size_t left = 0; left < 256; ++left) {
        for (std::size_t right = 0; right < 256; ++right)
            byte_merges_[left * 256 + right] = merge_of(byte_ids_[left], byte_ids_[right]);
    }
}

BpeMerges::Merge BpeMerges::merge_of(std::int32_t left, std::int32_t right) const {
    const std::uint64_t key = key_of(left, right);
    const std::uint64_t hash = hash_of(key);
    std::size_t at = hash >> shift_;
    if (const std::uint64_t bits = filter_bits(hash); (filter_[at / 16] & bits) != bits)
        return no_merge;
    for (;; at = (at + 1) & (slots_.size() - 1)) {
        const Slot& slot = slots_[at];
        if (slot.pair == key || slot.merge == no_merge) return slot.merge;
    }
}

void BpeMerges::encode(std::string_view word, std::vector<std::int32_t>& out) const {
    const auto id_at = [&](std::size_t i) {
        return byte_ids_[static_cast<unsigned char>(word[i])];
    };
    if (word.size() > short_word) {
        std::vector<std::int32_t> ids(word.size());
        for (std::size_t i = 0; i < ids.size(); ++i)
            ids[i] = id_at(i);
        return merge_long(ids, out);
    }
    std::int32_t ids[short_word];
    Merge merges[short_word];
    for (std::size_t i = 0; i < word.size(); ++i) {
        const auto byte = static_cast<unsigned char>(word[i]);
        ids[i] = id_at(i);
        merges[i] = i + 1 < word.size()
                        ? byte_merges_[byte * 256u + static_cast<unsigned char>(word[i + 1])]
                        : no_merge;
    }
    merge_short(ids, merges, word.size(), out);
}

void BpeMerges::encode(std::span<const std::int32_t> symbols,
                       std::vector<std::int32_t>& out) const {
    if (symbols.size() > short_word) return merge_long(symbols, out);
    std::int32_t ids[short_word];
    Merge merges[short_word];
    for (std::size_t i = 0; i < symbols.size(); ++i) {
        ids[i] = symbols[i];
        merges[i] = i + 1 < symbols.size() ? merge_of(symbols[i], symbols[i + 1]) : no_merge;
    }
    merge_short(ids, merges, symbols.size(), out);
}

void BpeMerges::merge_short(std::int32_t* ids, Merge* merges, std::size_t count,
                            std::vector<std::int32_t>& out) const {
    while (count > 1) {
        std::size_t best = 0;
        for (std::size_t i = 1; i + 1 < count; ++i)
            best = merges[i] < merges[best] ? i : best;
        if (merges[best] == no_merge) break;
        ids[best] = whole_of(merges[best]);
        --count;
        for (std::size_t i = best + 1; i < count; ++i) {
            ids[i] = ids[i + 1];
            merges[i] = merges[i + 1];
        }
        merges[best] = best + 1 < count ? merge_of(ids[best], ids[best + 1]) : no_merge;
        if (best > 0) merges[best - 1] = merge_of(ids[best - 1], ids[best]);
    }
    out.insert(out.end(), ids, ids + count);
}

void BpeMerges::merge_long(std::span<const std::int32_t> ids,
                           std::vector<std::int32_t>& out) const {
    // A list of symbols, each the place of its first byte; a merged one has no id.
    struct Symbol {
        std::int32_t id;
        std::uint32_t before, after;
    };
    struct Candidate {
        Merge merge;
        std::uint32_t at;
        bool operator>(const Candidate& other) const {
            return merge != other.merge ? merge > other.merge : at > other.at;
        }
    };
    constexpr std::uint32_t none = ~std::uint32_t{0};
    constexpr std::int32_t merged = -1;
    std::vector<Symbol> symbols(ids.size());
    std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> candidates;
    const auto merge_at = [&](std::uint32_t at) {
        const Symbol& symbol = symbols[at];
        return symbol.id == merged || symbol.after == none
                   ? no_merge
                   : merge_of(symbol.id, symbols[symbol.after].id);
    };
    const auto add = [&](std::uint32_t at) {
        if (const Merge merge = merge_at(at); merge != no_merge) candidates.push({merge, at});
    };
    const auto count = static_cast<std::uint32_t>(ids.size());
    for (std::uint32_t i = 0; i < count; ++i)
        symbols[i] = {ids[i], i == 0 ? none : i - 1, i + 1 == count ? none : i + 1};
    for (std::uint32_t i = 0; i + 1 < count; ++i)
        add(i);
    while (!candidates.empty()) {
        const Candidate best = candidates.top();
        candidates.pop();
        if (merge_at(best.at) != best.merge) continue;  // an older pair
        Symbol& left = symbols[best.at];
        Symbol& right = symbols[left.after];
        left.id = whole_of(best.merge);
        left.after = right.after;
        right.id = merged;
        if (left.after != none) symbols[left.after].before = best.at;
        add(best.at);
        if (left.before != none) add(left.before);
    }
    for (const Symbol& symbol : symbols)
        if (symbol.id != merged) out.push_back(symbol.id);
}

}  // namespace gptrain
