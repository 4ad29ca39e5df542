// Loops on threads, and zeroing that bypasses the caches.
#include <algorithm>
#include <omp.h>

#include "catch.h"
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

}  // namespace gptrain
