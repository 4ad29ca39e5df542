#include "tokenizer/word_table.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

namespace gptrain {
namespace {

/// Eight bytes at a time.
std::uint64_t hash_of(std::string_view word) {
    std::uint64_t hash = word.size();
    while (!word.empty()) {
        std::uint64_t eight = 0;
        const std::size_t size = std::min(word.size(), sizeof eight);
        std::memcpy(&eight, word.data(), size);
        hash = (hash ^ eight) * 0x9E3779B97F4A7C15u;
        hash ^= hash >> 32;
        word.remove_prefix(size);
    }
    return hash;
}

std::uint32_t fingerprint_of(std::uint64_t hash) {
    return static_cast<std::uint32_t>(hash >> 32);
}

}  // namespace

WordTable::WordTable(std::vector<Word> words)
    : words_(std::move(words)), slots_(std::bit_ceil(words_.size() * 3 / 2 + 1)) {
    std::uint32_t number = 0;
    for (const Word& word : words_) {
        const std::uint64_t hash = hash_of(word.bytes);
        std::size_t at = hash & (slots_.size() - 1);
        while (slots_[at].number != 0)
            at = (at + 1) & (slots_.size() - 1);
        slots_[at] = {fingerprint_of(hash), ++number};
    }
}

std::optional<std::int32_t> WordTable::find(std::string_view word) const {
    if (words_.empty()) return std::nullopt;
    const std::uint64_t hash = hash_of(word);
    for (std::size_t at = hash & (slots_.size() - 1);; at = (at + 1) & (slots_.size() - 1)) {
        const Slot& slot = slots_[at];
        if (slot.number == 0) return std::nullopt;
        if (slot.fingerprint != fingerprint_of(hash)) continue;
        const Word& found = words_[slot.number - 1];
        if (found.bytes == word) return found.id;
    }
}

}  // namespace gptrain
