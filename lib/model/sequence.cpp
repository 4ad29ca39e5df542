#include "model/sequence.h"

#include <algorithm>
#include <numeric>

#include "base/checked.h"

namespace gptrain {

std::vector<SequenceSlice> context_slices(std::int64_t seq_length, std::int64_t ranks,
                                          std::int64_t rank, ContextMethod method) {
    GPTRAIN_CHECK(rank >= 0 && rank < ranks, "rank ", rank, " of ", ranks);
    if (ranks == 1) return {{0, seq_length}};
    if (method == ContextMethod::all_to_all) {
        const std::int64_t length = div_exact(seq_length, ranks);
        return {{rank * length, length}};
    }
    const std::int64_t length = div_exact(seq_length, 2 * ranks);
    return {{rank * length, length}, {(2 * ranks - 1 - rank) * length, length}};
}

std::int64_t length_of(std::span<const SequenceSlice> slices) {
    return std::accumulate(
        slices.begin(), slices.end(), std::int64_t{0},
        [](std::int64_t sum, const SequenceSlice& slice) { return sum + slice.length; });
}

std::vector<SequenceSlice> slices_of_rows(std::span<const SequenceSlice> slices, std::int64_t begin,
                                          std::int64_t count) {
    GPTRAIN_CHECK(begin >= 0 && count >= 0 && begin + count <= length_of(slices), "rows ", begin,
                  " to ", begin + count, " of ", length_of(slices));
    std::vector<SequenceSlice> result;
    std::int64_t row = 0;
    for (const SequenceSlice& slice : slices) {
        const std::int64_t first = std::max(begin, row);
        const std::int64_t last = std::min(begin + count, row + slice.length);
        if (first < last)
            result.push_back({.begin = slice.begin + first - row, .length = last - first});
        row += slice.length;
    }
    return result;
}

RowPositions rows_of(std::span<const SequenceSlice> slices, const StreamSlice& part) {
    GPTRAIN_CHECK(slices.size() == 1 || slices.size() == 2, slices.size(), " slices");
    if (part.count > 1 && part.stripes == 1) {
        const std::int64_t length = length_of(slices);
        return rows_of(slices_of_rows(slices, part.first_row(length, 0), part.stripe_rows(length)));
    }
    RowPositions rows;
    rows.first_begin = slices[0].begin;
    if (slices.size() == 2) {
        rows.first_count = div_exact(slices[0].length, part.count);
        rows.second_begin = slices[1].begin;
    }
    if (part.stripes == 1) return rows;
    rows.stripe = part.stripe_rows(length_of(slices));
    rows.gap = (part.count - 1) * rows.stripe;
    if (slices.size() == 2) div_exact(rows.first_count, rows.stripe);
    rows.first_begin += part.index * rows.stripe;
    rows.second_begin += part.index * rows.stripe;
    return rows;
}

}  // namespace gptrain
