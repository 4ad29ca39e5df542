// Loops on threads, and zeroing that bypasses the caches.
#include <algorithm>
#include <omp.h>
#include <vector>

#include "base/philox.h"
#include "catch.h"
#include "cpu/attention.h"
#include "cpu/cpu_backend.h"

namespace gptrain {

TEST_CASE("a smaller team of threads than asked for does all the work") {
    constexpr std::int64_t count = 100'000;
    const auto backend = cpu::make_backend();
    const Buffer memory = backend->allocate(count * 4, MemorySpace::device);
    const Tensor all(memory.data(), DType::f32, {count});
    const int threads = omp_get_max_threads();
    const int levels = omp_get_max_active_levels();
    omp_set_num_threads(4);
    omp_set_max_active_levels(0);  // every team has one thread
    backend->run(Fill{.x = all, .value = 1});
    omp_set_max_active_levels(levels);
    omp_set_num_threads(threads);
    const float* values = all.as<float>();
    CHECK(std::count(values, values + count, 1.0f) == count);
}

TEST_CASE("many elements are zeroed wherever they begin") {
    constexpr std::int64_t count = (std::int64_t{4} << 20) + 5;
    const auto backend = cpu::make_backend();
    const Buffer memory = backend->allocate((count + 2) * 4, MemorySpace::device);
    const Tensor all(memory.data(), DType::f32, {count + 2});
    backend->run(Fill{.x = all, .value = 1});
    backend->run(Fill{.x = all.slice(0, 1, count), .value = 0});
    const float* values = all.as<float>();
    CHECK(values[0] == 1);
    CHECK(std::all_of(values + 1, values + 1 + count, [](float value) { return value == 0; }));
    CHECK(values[count + 1] == 1);
}

TEST_CASE("attention does not depend on how many threads share the queries") {
    // With one thread, four tiles of queries share each tile of keys; with 64, none do.
    constexpr std::int64_t tokens = 300, heads = 4, dim = 40;
    const Shape shape{1, tokens, heads, dim};
    std::vector<Bf16> inputs[3];
    for (std::uint32_t i = 0; i < 3; ++i) {
        for (std::uint32_t j = 0; j < shape.elements(); ++j) {
            const auto word = philox({j, 0, 0, 0}, {i, 0})[0];
            inputs[i].push_back(from_float<Bf16>(static_cast<float>(word) * 0x1p-30f - 2));
        }
    }
    const auto tensor = [&](auto& values, DType dtype, const Shape& of) {
        return Tensor(reinterpret_cast<std::byte*>(values.data()), dtype, of);
    };
    // Documents of 70 tokens.
    std::vector<std::int32_t> first_visible(tokens);
    for (std::int32_t i = 0; i < tokens; ++i)
        first_visible[static_cast<std::size_t>(i)] = i / 70 * 70;
    const auto attend = [&](int threads) {
        std::vector<Bf16> o(inputs[0].size());
        std::vector<float> lse(heads * tokens);
        std::vector<std::byte> memory(static_cast<std::size_t>(
            cpu::attention_forward_scratch_bytes(dim, threads) + Arena::alignment));
        Scratch scratch(memory.data(), static_cast<std::int64_t>(memory.size()));
        const int before = omp_get_max_threads();
        omp_set_num_threads(threads);
        cpu::run({.q = tensor(inputs[0], DType::bf16, shape),
                  .k = tensor(inputs[1], DType::bf16, shape),
                  .v = tensor(inputs[2], DType::bf16, shape),
                  .o = tensor(o, DType::bf16, shape),
                  .lse = tensor(lse, DType::f32, {1, heads, tokens}),
                  .first_visible = tensor(first_visible, DType::i32, {1, tokens}),
                  .dropout = {}},
                 scratch);
        omp_set_num_threads(before);
        std::vector<float> all = lse;
        for (const Bf16 value : o)
            all.push_back(to_float(value));
        return all;
    };
    CHECK(attend(1) == attend(64));
}

}  // namespace gptrain
