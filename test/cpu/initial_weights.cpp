// Initial weights by the formula of backend/backend.h, so that every backend draws the same ones.
#include <cmath>
#include <cstring>
#include <numbers>
#include <vector>

#include "base/philox.h"
#include "catch.h"
#include "cpu/cpu_backend.h"

namespace gptrain {
namespace {

/// Element e of N(0, 1), in double.
double normal(PhiloxKey key, std::int64_t e) {
    const std::int64_t block = e / 4;
    const PhiloxBlock words = philox(
        {static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32), 0, 0}, key);
    const std::size_t pair = e % 4 / 2 * 2;
    const double u = (words[pair] / 256 + 1) * 0x1p-24;
    const double angle = 2 * std::numbers::pi * (words[pair + 1] / 256) * 0x1p-24;
    return std::sqrt(-2 * std::log(u)) * (e % 2 == 0 ? std::cos(angle) : std::sin(angle));
}

}  // namespace

TEST_CASE("initial weights follow the formula, also far inside a huge tensor") {
    constexpr std::int64_t count = 4000;
    const auto backend = cpu::make_backend();
    const Buffer memory = backend->allocate(count * 4, MemorySpace::device);
    const PhiloxKey key = philox_stream(77, name_hash("wte.weight"), 0, 0);
    // The second range begins where the block number passes 32 bits.
    for (const std::int64_t begin : {std::int64_t{0}, (std::int64_t{1} << 34) - 1001}) {
        Shard shard = Shard::whole("wte.weight", {std::int64_t{1} << 40});
        shard.flat_begin = begin;
        shard.flat_end = begin + count;
        backend->run(InitNormal{.x = Tensor(memory.data(), DType::f32, {count}),
                                .shard = shard,
                                .seed = 77,
                                .std = 0.5f});
        std::vector<float> got(count);
        std::memcpy(got.data(), memory.data(), count * 4);
        double worst = 0;
        for (std::int64_t i = 0; i < count; ++i)
            worst = std::max(worst, std::abs(got[i] - 0.5 * normal(key, begin + i)));
        // Up to 6 standard deviations, each factor within a few ulps of fp32.
        CHECK(worst < 0.5 * 6 * 16 * 0x1p-24);
    }
}

}  // namespace gptrain
