#include "tensor/shard_runs.h"

#include <algorithm>

namespace gptrain {

ShardRuns runs_of(const Shard& shard) {
    const Shape& global = shard.global;
    ShardRuns runs;
    runs.length = runs.stride = std::max<std::int64_t>(global.elements(), 1);
    std::int64_t inner = 1;
    bool cut = false;
    for (int dim = global.rank() - 1; dim >= 0; --dim) {
        const std::int64_t extent = shard.box.extent[dim];
        if (extent != global[dim]) {
            GPTRAIN_CHECK(!cut, shard.name, ": a box that cuts two dims");
            cut = true;
            runs = {.base = shard.box.offset[dim] * inner,
                    .length = std::max<std::int64_t>(extent * inner, 1),
                    .stride = global[dim] * inner};
        }
        inner *= global[dim];
    }
    return runs;
}

Shard block_shard(const Shard& shard, std::int64_t block, std::int64_t values) {
    const ShardRuns runs = runs_of(shard);
    const std::int64_t all = shard.box.extent.elements();
    GPTRAIN_CHECK(
        shard.flat_begin % block == 0 && (shard.flat_end % block == 0 || shard.flat_end == all) &&
            runs.base % block == 0 &&
            (runs.length % block == 0 || runs.base + runs.length == shard.global.elements()),
        shard.name, " [", shard.flat_begin, ", ", shard.flat_end, ") is not made of blocks of ",
        block);
    int merged = shard.global.rank() - 1;  // the dim that the ones behind it are merged into
    std::int64_t inner = 1;                // their size
    while (merged > 0 && shard.global[merged] * inner % block != 0)
        inner *= shard.global[merged--];
    const auto to_values = [&](std::int64_t elements) {
        return div_ceil(elements * inner, block) * values;
    };
    Shard blocks = {.name = shard.name, .global = {}, .box = {}, .owned = shard.owned};
    for (int dim = 0; dim < merged; ++dim) {
        blocks.global.push_back(shard.global[dim]);
        blocks.box.offset.push_back(shard.box.offset[dim]);
        blocks.box.extent.push_back(shard.box.extent[dim]);
    }
    blocks.global.push_back(to_values(shard.global[merged]));
    blocks.box.offset.push_back(to_values(shard.box.offset[merged]));
    blocks.box.extent.push_back(to_values(shard.box.extent[merged]));
    blocks.flat_begin = shard.flat_begin / block * values;
    blocks.flat_end = div_ceil(shard.flat_end, block) * values;
    return blocks;
}

}  // namespace gptrain
