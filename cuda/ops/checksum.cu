#include "cuda/ops/checksum.h"

#include <algorithm>

#include "base/checked.h"
#include "cuda/device/reduce.cuh"
#include "cuda/ops/scratch_sizes.h"

namespace gptrain::cuda {
namespace {

using Word = std::uint64_t;
constexpr int width = 2;
using Words = Vec<Word, width>;
constexpr int block_size = 256;

struct WarpSums {
    Word sums[block_size / warp_threads];
};

__device__ inline Word hash(Word word, std::int64_t index) {
    const Word v = word + static_cast<Word>(index + 1) * 0x9e3779b97f4a7c15U;
    const Word product = v * 0xd6e8feb86659fd93U;
    return product ^ (product >> 32);
}

__global__ void __launch_bounds__(block_size)
    hash_words(const std::uint8_t* data, std::int64_t bytes, Word* parts) {
    constexpr std::int64_t vector_bytes = sizeof(Words);
    const std::int64_t vectors = bytes / vector_bytes;
    Word sum = 0;
    for (std::int64_t i = block_index().x * block_size + thread_index(); i < vectors;
         i += grid_blocks().x * block_size) {
        const Words words = load_once(reinterpret_cast<const Words*>(data) + i);
        sum = sum + (hash(words[0], width * i) + hash(words[1], width * i + 1));
    }
    // At most one vector is left; its last word is padded with zeros.
    if (block_index().x == 0 && thread_index() == 0) {
        const std::int64_t word_bytes = sizeof(Word);
        for (std::int64_t begin = vectors * vector_bytes; begin < bytes; begin += word_bytes) {
            Word word = 0;
            for (std::int64_t byte = 0; byte < word_bytes && begin + byte < bytes; ++byte)
                word = word | static_cast<Word>(data[begin + byte]) << (8 * byte);
            sum = sum + hash(word, begin / word_bytes);
        }
    }
    sum = block_sum(sum, shared_memory<WarpSums>().sums);
    if (thread_index() == 0) parts[block_index().x] = sum;
}

__global__ void __launch_bounds__(block_size)
    add_parts(const Word* parts, std::int64_t count, Word* total) {
    Word sum = 0;
    for (std::int64_t i = thread_index(); i < count; i += block_size)
        sum = sum + parts[i];
    sum = block_sum(sum, shared_memory<WarpSums>().sums);
    if (thread_index() == 0) *total = *total + sum;
}

}  // namespace

void run(const Checksum& args, const OpContext& context) {
    GPTRAIN_CHECK(
        args.x.contiguous() && reinterpret_cast<std::uintptr_t>(args.x.data()) % sizeof(Words) == 0,
        "checksum of ", args.x.shape().to_text(), ", not contiguous or not aligned");
    auto* parts = context.scratch.take<Word>(checksum_blocks);
    const std::int64_t blocks = std::clamp(div_ceil(args.x.bytes(), block_size * sizeof(Words)),
                                           std::int64_t{1}, checksum_blocks);
    launch(context.stream,
           {.blocks = blocks, .threads = block_size, .shared_bytes = sizeof(WarpSums)}, hash_words,
           reinterpret_cast<const std::uint8_t*>(args.x.data()), args.x.bytes(), parts);
    launch(context.stream, {.blocks = 1, .threads = block_size, .shared_bytes = sizeof(WarpSums)},
           add_parts, parts, blocks, reinterpret_cast<Word*>(args.sum.as<std::int64_t>()));
}

}  // namespace gptrain::cuda
