#include "cuda/ops/random.h"

#include "base/philox.h"
#include "cuda/device/device.cuh"

namespace gptrain::cuda {
namespace {

constexpr int block_size = 256;

/// Maps elements of a shard to their index in the whole tensor (Shard::global_index).
struct Place {
    int rank;
    std::int64_t offset[Shape::max_rank];
    std::int64_t extent[Shape::max_rank];
    std::int64_t global[Shape::max_rank];
    std::int64_t flat_begin;

    explicit Place(const Shard& shard)
        : rank(shard.global.rank()), offset{}, extent{}, global{}, flat_begin(shard.flat_begin) {
        for (int dim = 0; dim < rank; ++dim) {
            offset[dim] = shard.box.offset[dim];
            extent[dim] = shard.box.extent[dim];
            global[dim] = shard.global[dim];
        }
    }

    __device__ std::int64_t element(std::int64_t i) const {
        std::int64_t flat = flat_begin + i;
        std::int64_t index = 0;
        std::int64_t stride = 1;
        for (int dim = rank - 1; dim >= 0; --dim) {
            index += (offset[dim] + flat % extent[dim]) * stride;
            flat /= extent[dim];
            stride *= global[dim];
        }
        return index;
    }
};

/// (floor(word / 256) + above) / 2^24, exact.
__device__ inline float uniform(std::uint32_t word, float above) {
    return (static_cast<float>(word >> 8) + above) * 0x1p-24f;
}

/// Every element draws its whole block of four; a run does this only once.
__global__ void __launch_bounds__(block_size)
    draw_normal(float* x, std::int64_t count, Place place, PhiloxKey key, float std) {
    const std::int64_t i = std::int64_t{block_index().x} * block_size + thread_index();
    if (i >= count) return;
    const std::int64_t element = place.element(i);
    const auto block = static_cast<std::uint64_t>(element / 4);
    const PhiloxBlock words = philox(
        {static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32), 0, 0}, key);
    const bool second_pair = element % 4 >= 2;
    const std::uint32_t of_radius = second_pair ? words[2] : words[0];
    const std::uint32_t of_angle = second_pair ? words[3] : words[1];
    const float radius = std * square_root(-2.0f * logarithm(uniform(of_radius, 1)));
    const float half_turns = 2.0f * uniform(of_angle, 0);
    x[i] = radius * (element % 2 == 0 ? cosine_pi(half_turns) : sine_pi(half_turns));
}

}  // namespace

void run(const InitNormal& args, const OpContext& context) {
    const std::int64_t count = args.shard.elements();
    launch(context.stream, {.blocks = div_ceil(count, block_size), .threads = block_size},
           draw_normal, args.x.as<float>(), count, Place(args.shard),
           philox_stream(args.seed, name_hash(args.shard.name), 0, 0), args.std);
}

}  // namespace gptrain::cuda
