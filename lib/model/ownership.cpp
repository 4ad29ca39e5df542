#include "model/ownership.h"

#include <algorithm>

namespace gptrain {
namespace {

/// The overlap of a parameter with a range of the flat buffers, as a shard of the parameter.
Shard overlap(const Parameter& parameter, const Bucket& range) {
    Shard shard = parameter.shard;
    const std::int64_t begin = std::max(parameter.begin, range.begin);
    const std::int64_t end = std::max(begin, std::min(parameter.end(), range.end));
    shard.flat_begin = begin - parameter.begin;
    shard.flat_end = end - parameter.begin;
    return shard;
}

}  // namespace

Bucket part_of_bucket(const Bucket& bucket, int rank, int ranks) {
    const std::int64_t length = div_exact(bucket.end - bucket.begin, ranks);
    return {bucket.begin + rank * length, bucket.begin + (rank + 1) * length};
}

std::vector<OwnedRange> owned_ranges(const ParameterLayout& layout, const Communicator& sharers,
                                     bool shard) {
    std::vector<OwnedRange> ranges;
    for (const Bucket& bucket : layout.buckets) {
        const Bucket own = shard ? part_of_bucket(bucket, sharers.rank(), sharers.size()) : bucket;
        for (const Parameter& parameter : layout.parameters) {
            Shard part = overlap(parameter, own);
            if (part.elements() == 0) continue;
            const std::int64_t begin = parameter.begin + part.flat_begin;
            ranges.push_back({&parameter, std::move(part), begin});
        }
    }
    return ranges;
}

}  // namespace gptrain
