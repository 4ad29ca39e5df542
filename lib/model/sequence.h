// How the ranks of cp share every sequence.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/dropout.h"
#include "spec/run_spec.h"

namespace gptrain {

/// Consecutive positions of every sequence.
struct SequenceSlice {
    std::int64_t begin = 0;
    std::int64_t length = 0;
    bool operator==(const SequenceSlice&) const = default;
};

/// What one of `ranks` ranks has of every sequence, in the order of its rows. Of as many equal
/// slices in all as are needed:
///  - ring: of 2 x ranks, number `rank` and number 2 x ranks - 1 - rank. Under the causal mask an
///    early slice sees few keys and a late one many: so all ranks have the same work (Megatron's
///    layout);
///  - all_to_all: of `ranks`, number `rank`.
/// One rank has one slice, the whole. A length that is not a multiple of the slices is an Error
/// (bug).
std::vector<SequenceSlice> context_slices(std::int64_t seq_length, std::int64_t ranks,
                                          std::int64_t rank, ContextMethod method);

/// Rows of a rank with these slices.
std::int64_t length_of(std::span<const SequenceSlice> slices);

/// The positions of rows [begin, begin + count) of a rank with these slices: what sequence
/// parallelism makes of them.
std::vector<SequenceSlice> slices_of_rows(std::span<const SequenceSlice> slices, std::int64_t begin,
                                          std::int64_t count);

/// The positions of the rows, for dropout; of one or two slices.
SequenceRows rows_of(std::span<const SequenceSlice> slices);

/// [B, S] of a rank with these slices, from the row-major [B, seq_length] of whole sequences.
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
