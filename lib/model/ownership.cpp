#include "model/ownership.h"

#include <algorithm>

namespace gptrain {
namespace {

/// The overlap of a parameter and a flat range, as a shard of the parameter.
Shard overlap(const Parameter& parameter, const FlatRange& range) {
    Shard shard = parameter.shard;
    const std::int64_t begin = std::max(parameter.begin(), range.begin);
    const std::int64_t end = std::max(begin, std::min(parameter.end(), range.end));
    shard.flat_begin = begin - parameter.begin();
    shard.flat_end = end - parameter.begin();
    return shard;
}

}  // namespace

FlatRange part_of_bucket(const FlatRange& bucket, int rank, int ranks) {
    const std::int64_t length = div_exact(bucket.elements(), ranks);
    return {bucket.begin + rank * length, bucket.begin + (rank + 1) * length};
}

Owner owner_of(const Sharing& sharing, const Mesh& mesh) {
    const std::int64_t rank = rank_of(mesh.place(), mesh.shape());
    const RankGroup sums = group_on(sharing.sums, rank, mesh.shape());
    if (!sharing.owners) return {.saves = sums.rank == 0};
    const RankGroup owners = group_on(*sharing.owners, rank, mesh.shape());
    // The first group of owners among the ranks that sum begins with the same rank as theirs.
    return {.rank = owners.rank, .ranks = owners.size, .saves = owners.id == sums.id};
}

namespace {

/// The parts of some buckets that this rank owns.
std::vector<OwnedRange> owned_in(const std::vector<Bucket>& buckets, const ParameterLayout& layout,
                                 const Mesh& mesh) {
    std::vector<OwnedRange> ranges;
    ranges.reserve(layout.parameters.size());
    const auto ends_by = [](const Parameter& parameter, std::int64_t position) {
        return parameter.end() <= position;
    };
    auto parameter = layout.parameters.begin();
    for (const Bucket& bucket : buckets) {
        const Owner owner = owner_of(bucket.sharing, mesh);
        FlatRange own = bucket;
        if (!bucket.whole) own = part_of_bucket(bucket, owner.rank, owner.ranks);
        parameter = std::lower_bound(parameter, layout.parameters.end(), own.begin, ends_by);
        for (auto next = parameter; next != layout.parameters.end() && next->begin() < own.end;
             ++next) {
            if (bucket.whole && next->owner != owner.rank) continue;
            Shard part = overlap(*next, own);
            if (part.elements() == 0) continue;
            const std::int64_t begin = next->begin() + part.flat_begin;
            ranges.push_back({.parameter = &*next, .shard = std::move(part), .begin = begin});
        }
    }
    return ranges;
}

}  // namespace

std::vector<OwnedRange> owned_ranges(const ParameterLayout& layout, const Mesh& mesh) {
    return owned_in(layout.buckets, layout, mesh);
}

std::vector<FlatRange> whole_runs(const ParameterLayout& layout, const Bucket& bucket, int owner) {
    std::vector<FlatRange> runs;
    bool open = false;
    for (const Parameter& parameter : layout.parameters) {
        if (parameter.begin() < bucket.begin) continue;
        if (parameter.begin() >= bucket.end) break;
        const bool own = parameter.owner == owner;
        if (own && open) runs.back().end = parameter.end();
        if (own && !open) runs.push_back(parameter.range());
        open = own;
    }
    return runs;
}

std::vector<WeightMessage> weight_messages(const ParameterLayout& layout, const Mesh& mesh) {
    std::vector<WeightMessage> messages;
    auto parameter = layout.parameters.begin();
    for (const Bucket& bucket : layout.buckets) {
        const bool sent = owner_of(bucket.sharing, mesh).ranks > 1;
        if (sent && !bucket.whole)
            messages.push_back({bucket, *bucket.sharing.owners, {}, bucket.unit, bucket.fp8});
        std::optional<int> owner;  // of the last message
        for (; parameter != layout.parameters.end() && parameter->begin() < bucket.end;
             ++parameter) {
            if (!bucket.whole) continue;
            if (owner == parameter->owner) {
                messages.back().range.end = parameter->end();
            } else {
                owner = parameter->owner;
                messages.push_back({.range = parameter->range(),
                                    .owners = *bucket.sharing.owners,
                                    .owner = owner,
                                    .unit = bucket.unit});
            }
        }
    }
    for (const Bucket& bucket : layout.frozen_buckets) {
        if (owner_of(bucket.sharing, mesh).ranks > 1)
            messages.push_back({bucket, *bucket.sharing.owners, {}, bucket.unit, bucket.fp8});
    }
    return messages;
}

std::vector<OwnedRange> frozen_ranges(const ParameterLayout& layout, const Mesh& mesh) {
    std::vector<OwnedRange> ranges = owned_in(layout.frozen_buckets, layout, mesh);
    for (OwnedRange& range : ranges)
        range.shard.owned = range.shard.owned && owner_of(range.parameter->sharing, mesh).saves;
    const std::int64_t divided =
        layout.frozen_buckets.empty() ? 0 : layout.frozen_buckets.back().end;
    for (const Parameter& parameter : layout.parameters) {
        if (parameter.trained() || !parameter.storage.in_compute_dtype) continue;
        if (parameter.begin() < divided) continue;
        const Owner owner = owner_of(parameter.sharing, mesh);
        const std::int64_t all = parameter.shard.elements();
        const auto end_of = [&](std::int64_t rank) {
            return owner.saves ? all * rank / owner.ranks : all;
        };
        const std::int64_t ends[] = {end_of(owner.rank), end_of(owner.rank + 1), all};
        std::int64_t begin = 0;
        for (int i = 0; i < 3; ++i) {
            Shard part = parameter.shard;
            part.flat_begin = begin;
            part.flat_end = ends[i];
            part.owned = part.owned && i == 1;
            if (part.elements() > 0)
                ranges.push_back({.parameter = &parameter,
                                  .shard = std::move(part),
                                  .begin = parameter.begin() + begin});
            begin = ends[i];
        }
    }
    return ranges;
}

std::vector<FlatRange> cleared_ranges(const ParameterLayout& layout) {
    std::vector<FlatRange> cleared;
    std::int64_t begin = 0;
    const auto clear_to = [&](std::int64_t end) {
        if (begin < end) cleared.push_back({begin, end});
    };
    for (const ParameterGroup& group : layout.groups) {
        if (!group.storage.overwritten) continue;
        clear_to(group.range().begin);
        begin = group.range().end;
    }
    clear_to(layout.trained);
    return cleared;
}

}  // namespace gptrain
