// How the ranks of cp share every sequence. Rank r of p holds, counted from 0,
//   ring:        slices r and 2p - 1 - r of 2p equal slices,
//   all_to_all:  slice r of p equal slices.
// With sequence parallelism, tp rank t of T then holds part t of T of each stripe of these rows.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/dropout.h"
#include "base/checked.h"
#include "spec/spec_words.h"

namespace gptrain {

/// A range of positions, the same in every sequence.
struct SequenceSlice {
    std::int64_t begin = 0;
    std::int64_t length = 0;
    bool operator==(const SequenceSlice&) const = default;
};

/// The slices of every sequence that `rank` of `ranks` holds, in the order of its rows. Sequences
/// are cut into equal slices:
///  - ring: 2 x ranks slices; a rank holds number `rank` and number 2 x ranks - 1 - rank. Under the
///    causal mask early positions see few keys and late ones many, so this balances the work
///    (Megatron's layout);
///  - all_to_all: `ranks` slices; a rank holds number `rank`.
/// A single rank holds one slice, the whole sequence. A length that does not divide evenly is an
/// Error (bug).
std::vector<SequenceSlice> context_slices(std::int64_t seq_length, std::int64_t ranks,
                                          std::int64_t rank, ContextMethod method);

/// Number of rows in these slices.
std::int64_t length_of(std::span<const SequenceSlice> slices);

/// The positions of rows [begin, begin + count) within these slices.
std::vector<SequenceSlice> slices_of_rows(std::span<const SequenceSlice> slices, std::int64_t begin,
                                          std::int64_t count);

/// Part `index` of `count` equal ones of each of `stripes` equal stripes of a sequence: what
/// sequence parallelism assigns to a tp rank.
struct StreamSlice {
    std::int64_t index = 0;
    std::int64_t count = 1;
    std::int64_t stripes = 1;

    /// Rows of each stripe, of a sequence of `length` rows.
    std::int64_t stripe_rows(std::int64_t length) const {
        return div_exact(length, count * stripes);
    }
    /// The first row in a stripe.
    std::int64_t first_row(std::int64_t length, std::int64_t stripe) const {
        return (stripe * count + index) * stripe_rows(length);
    }
};

/// Positions, for dropout, of the rows of `part` in one or two slices. Two slices have the same
/// length, and no stripe lies in both.
RowPositions rows_of(std::span<const SequenceSlice> slices, const StreamSlice& part = {});

/// This rank's [B, S] rows out of whole sequences, row-major [B, seq_length].
template <class T>
std::vector<T> local_part(std::span<const T> whole, std::int64_t seq_length,
                          std::span<const SequenceSlice> slices) {
    std::vector<T> part;
    for (auto rest = whole; !rest.empty();
         rest = rest.subspan(static_cast<std::size_t>(seq_length))) {
        for (const SequenceSlice& slice : slices) {
            const auto values = rest.subspan(static_cast<std::size_t>(slice.begin),
                                             static_cast<std::size_t>(slice.length));
            part.insert(part.end(), values.begin(), values.end());
        }
    }
    return part;
}

}  // namespace gptrain
