#include "model/ownership.h"

#include <algorithm>

namespace gptrain {
namespace {

/// The overlap of a parameter and a flat range, as a shard of the parameter.
Shard overlap(const Parameter& parameter, const FlatRange& range) {
    Shard shard = parameter.shard;
    const std::int64_t begin = std::max(parameter.begin, range.begin);
    const std::int64_t end = std::max(begin, std::min(parameter.end(), range.end));
    shard.flat_begin = begin - parameter.begin;
    shard.flat_end = end - parameter.begin;
    return shard;
}

}  // namespace

FlatRange part_of_bucket(const FlatRange& bucket, int rank, int ranks) {
    const std::int64_t length = div_exact(bucket.end - bucket.begin, ranks);
    return {bucket.begin + rank * length, bucket.begin + (rank + 1) * length};
}

std::vector<OwnedRange> owned_ranges(const ParameterLayout& layout, const Communicator& sharers,
                                     bool shard) {
    std::vector<OwnedRange> ranges;
    ranges.reserve(layout.parameters.size());
    const auto ends_by = [](const Parameter& parameter, std::int64_t position) {
        return parameter.end() <= position;
    };
    auto parameter = layout.parameters.begin();
    for (const FlatRange& bucket : layout.buckets) {
        const FlatRange own =
            shard ? part_of_bucket(bucket, sharers.rank(), sharers.size()) : bucket;
        parameter = std::lower_bound(parameter, layout.parameters.end(), own.begin, ends_by);
        for (auto next = parameter; next != layout.parameters.end() && next->begin < own.end;
             ++next) {
            Shard part = overlap(*next, own);
            if (part.elements() == 0) continue;
            const std::int64_t begin = next->begin + part.flat_begin;
            ranges.push_back({&*next, std::move(part), begin});
        }
    }
    return ranges;
}

}  // namespace gptrain
