#include "cpu/checksum.h"

#include <cstdint>
#include <cstring>
#include <numeric>
#include <vector>

#include "base/checked.h"
#include "cpu/parallel.h"

namespace gptrain::cpu {
namespace {

constexpr std::int64_t word_bytes = 8;

std::uint64_t hash(std::uint64_t word, std::int64_t index) {
    const std::uint64_t v = word + static_cast<std::uint64_t>(index + 1) * 0x9e3779b97f4a7c15U;
    const std::uint64_t product = v * 0xd6e8feb86659fd93U;
    return product ^ (product >> 32);
}

}  // namespace

void run(const Checksum& args) {
    GPTRAIN_CHECK(args.x.contiguous(), "checksum of ", args.x.shape().to_text(), " with gaps");
    const std::byte* bytes = args.x.data();
    const std::int64_t words = args.x.bytes() / word_bytes;
    constexpr std::int64_t block = 4096;
    std::vector<std::uint64_t> sums(static_cast<std::size_t>(div_ceil(words, block)));
    parallel_ranges(std::ssize(sums), block, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
            std::uint64_t part = 0;
            for (std::int64_t at = i * block; at < std::min(words, (i + 1) * block); ++at) {
                std::uint64_t word = 0;
                std::memcpy(&word, bytes + at * word_bytes, word_bytes);
                part += hash(word, at);
            }
            sums[static_cast<std::size_t>(i)] = part;
        }
    });
    std::uint64_t total = std::accumulate(sums.begin(), sums.end(), std::uint64_t{0});
    if (const std::int64_t rest = args.x.bytes() % word_bytes; rest > 0) {
        std::uint64_t word = 0;
        std::memcpy(&word, bytes + words * word_bytes, static_cast<std::size_t>(rest));
        total += hash(word, words);
    }
    auto& result = *args.sum.as<std::int64_t>();
    result = static_cast<std::int64_t>(static_cast<std::uint64_t>(result) + total);
}

}  // namespace gptrain::cpu
