#include "tensor/shard.h"

#include <utility>

namespace gptrain {

Shard Shard::whole(std::string name, const Shape& global) {
    Shape origin = global;
    for (int dim = 0; dim < origin.rank(); ++dim)
        origin[dim] = 0;
    const std::int64_t count = global.elements();
    return {std::move(name), global, {origin, global}, 0, count, true};
}

std::int64_t Shard::global_index(std::int64_t flat) const {
    std::int64_t index = 0;
    std::int64_t stride = 1;
    for (int dim = global.rank() - 1; dim >= 0; --dim) {
        index += (box.offset[dim] + flat % box.extent[dim]) * stride;
        flat /= box.extent[dim];
        stride *= global[dim];
    }
    return index;
}

}  // namespace gptrain
