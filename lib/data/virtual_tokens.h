// Virtual tokens: token j of P, before a text, has the id j - P, below all ids of the vocabulary. A
// model looks up its embedding in a separate table.
#pragma once

#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

namespace gptrain {

/// The ids of virtual tokens from `begin` on, of `count` in all.
inline void fill_virtual_ids(std::span<std::int32_t> ids, std::int64_t begin, std::int64_t count) {
    std::iota(ids.begin(), ids.end(), static_cast<std::int32_t>(begin - count));
}

/// Appends the ids of `count` virtual tokens.
inline void append_virtual_tokens(std::vector<std::int32_t>& ids, std::int64_t count) {
    ids.resize(ids.size() + static_cast<std::size_t>(count));
    fill_virtual_ids(std::span(ids).last(static_cast<std::size_t>(count)), 0, count);
}

}  // namespace gptrain
