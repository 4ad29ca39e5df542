// Twin of cuda/device/device.cuh for the host compiler: the same functions, which also check how
// they are used. Copies, tiles and products take effect only where CUDA guarantees it. Functions
// that order memory accesses take their place as an additional argument (emulator/sites.h).
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "base/fp8.h"
#include "emulator/counts.h"
#include "emulator/grid.h"
#include "emulator/memory.h"
#include "emulator/races.h"
#include "emulator/sites.h"

// CUDA keywords that the host compiler does not know.
#define __global__
#define __device__
#define __host__
#define __grid_constant__
#define __launch_bounds__(...)

namespace gptrain::cuda {

struct Index3 {
    int x, y, z;
};

inline int thread_index() {
    return emulator::current().index;
}
inline int block_threads() {
    return emulator::current().block->shape.threads;
}
inline Index3 block_index() {
    const auto& index = emulator::current().block->index;
    return {static_cast<int>(index[0]), static_cast<int>(index[1]), static_cast<int>(index[2])};
}
inline Index3 grid_blocks() {
    const auto& blocks = emulator::current().block->shape.blocks;
    return {static_cast<int>(blocks[0]), static_cast<int>(blocks[1]), static_cast<int>(blocks[2])};
}
constexpr int warp_threads = 32;
inline int lane_index() {
    return thread_index() % warp_threads;
}
inline int warp_index() {
    static constexpr char kind = 0;
    emulator::meet(warp_threads, &kind, "warp_index", nullptr, [](auto&) {});
    return thread_index() / warp_threads;
}

template <class T>
inline T& shared_memory() {
    static_assert(alignof(T) <= 1024);
    emulator::Block& block = *emulator::current().block;
    if (block.shape.shared_bytes < static_cast<std::int64_t>(sizeof(T))) {
        emulator::fault("more shared memory used than the launch asked for");
    }
    return *reinterpret_cast<T*>(block.shared);
}

inline std::uint32_t shared_address(const void* p) {
    emulator::check_shared(p, 1, 1, "an address in shared memory");
    return emulator::first_shared_address + static_cast<std::uint32_t>(emulator::shared_offset(p));
}

constexpr int swizzle_128(int offset) {
    return offset ^ ((offset >> 7 & 7) << 4);
}

template <class T, int N>
struct alignas(N * sizeof(T)) Vec {
    static_assert(N * sizeof(T) <= 16);
    T values[N];
    T& operator[](int i) { return values[i]; }
    const T& operator[](int i) const { return values[i]; }
};

template <class T>
using Vec16 = Vec<T, 16 / static_cast<int>(sizeof(T))>;

inline float widen(float x) {
    return x;
}
inline float widen(Bf16 x) {
    return to_float(x);
}
inline float widen(F16 x) {
    return to_float(x);
}
template <class T>
inline T narrow(float x) {
    return from_float<T>(x);
}
template <class T>
inline std::uint32_t narrow2(float low, float high) {
    return from_float<T>(low).bits | static_cast<std::uint32_t>(from_float<T>(high).bits) << 16;
}
template <class Fp8>
inline std::uint32_t narrow2_fp8(float low, float high) {
    return gptrain::to_fp8<Fp8>(low).bits |
           static_cast<std::uint32_t>(gptrain::to_fp8<Fp8>(high).bits) << 8;
}
inline std::uint32_t bits_of(float x) {
    return std::bit_cast<std::uint32_t>(x);
}
inline float float_of(std::uint32_t bits) {
    return std::bit_cast<float>(bits);
}
inline int bits_set(std::uint32_t x) {
    return std::popcount(x);
}

inline float fma(float a, float b, float c) {
    return std::fma(a, b, c);
}
inline double fma(double a, double b, double c) {
    return std::fma(a, b, c);
}
namespace detail {
inline float without_subnormals(float x) {
    return std::abs(x) < 0x1p-126f ? std::copysign(0.0f, x) : x;
}
}  // namespace detail
inline float exp2_approx(float x) {
    return detail::without_subnormals(std::exp2(detail::without_subnormals(x)));
}
inline float log2_approx(float x) {
    return std::log2(x);
}
inline float reciprocal_approx(float x) {
    return detail::without_subnormals(1 / detail::without_subnormals(x));
}
inline float square_root(float x) {
    return std::sqrt(x);
}
inline double square_root(double x) {
    return std::sqrt(x);
}
inline int nearest_int(float x) {
    return static_cast<int>(std::nearbyint(x));
}
inline float maximum(float a, float b) {
    return std::fmax(a, b);
}
inline float minimum(float a, float b) {
    return std::fmin(a, b);
}
inline float absolute(float x) {
    return std::fabs(x);
}
inline float complementary_erf(float x) {
    return std::erfc(x);
}
inline double cosine(double x) {
    return std::cos(x);
}
inline double sine(double x) {
    return std::sin(x);
}
inline double power(double x, double y) {
    return std::pow(x, y);
}
inline float logarithm(float x) {
    return std::log(x);
}
inline double logarithm(double x) {
    return std::log(x);
}
inline double exponential(double x) {
    return std::exp(x);
}
/// Removes whole periods first, which is exact.
inline double cosine_pi(double x) {
    return std::cos(3.14159265358979323846 * std::remainder(x, 2.0));
}
inline double sine_pi(double x) {
    return std::sin(3.14159265358979323846 * std::remainder(x, 2.0));
}
inline float cosine_pi(float x) {
    return static_cast<float>(cosine_pi(static_cast<double>(x)));
}
inline float sine_pi(float x) {
    return static_cast<float>(sine_pi(static_cast<double>(x)));
}
inline bool is_finite(double x) {
    return std::isfinite(x);
}

template <class V>
inline V load(const V* p) {
    emulator::check_access(p, sizeof(V), sizeof(V), "load");
    return *p;
}
template <class V>
inline V load_once(const V* p) {
    return load(p);
}
template <class V>
inline V load_constant(const V* p) {
    emulator::note_access(p, sizeof(V), emulator::AccessKind::constant, "load_constant");
    return load(p);
}
template <class V>
inline void store(V* p, const V& value) {
    emulator::check_access(p, sizeof(V), sizeof(V), "store");
    *p = value;
}
template <class V>
inline void store_once(V* p, const V& value) {
    store(p, value);
}

using emulator::Site;

unsigned atomic_add(unsigned* p, unsigned x, Site where = Site::current());
void atomic_max_not_negative(float* p, float x, Site where = Site::current());

unsigned load_acquire(const unsigned* p, Site where = Site::current());
void store_release(unsigned* p, unsigned value, Site where = Site::current());
inline void spin_pause() {
    emulator::spin();
}

inline void block_barrier(Site where = Site::current()) {
    if (!emulator::removed(where)) emulator::meet_block("block_barrier");
}
void warp_barrier(Site where = Site::current());
void barrier_wait(int barrier, int threads, Site where = Site::current());
void barrier_arrive(int barrier, int threads, Site where = Site::current());

namespace detail {
/// Every lane provides a value and gets the value of lane `source`.
template <class T, class Source>
T exchange(const char* name, const void* kind, T value, const Source& source) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8);
    struct Argument {
        T given;
        int from;
        T taken;
    } argument = {value, source(lane_index()), value};
    emulator::meet(warp_threads, kind, name, &argument, [&](std::vector<void*>& all) {
        emulator::count_bytes(warp_threads * std::int64_t{sizeof(T)});
        for (void* lane : all) {
            auto& mine = *static_cast<Argument*>(lane);
            mine.taken = static_cast<Argument*>(all[static_cast<std::size_t>(mine.from)])->given;
        }
    });
    return argument.taken;
}
}  // namespace detail

template <class T>
inline T shuffle_xor(T value, int mask) {
    static constexpr char kind = 0;
    return detail::exchange("shuffle_xor", &kind, value, [mask](int lane) { return lane ^ mask; });
}
template <class T>
inline T shuffle(T value, int lane) {
    static constexpr char kind = 0;
    return detail::exchange("shuffle", &kind, value, [lane](int) { return lane & 31; });
}
template <class T>
inline T shuffle_up(T value, int by) {
    static constexpr char kind = 0;
    return detail::exchange("shuffle_up", &kind, value,
                            [by](int lane) { return lane < by ? lane : lane - by; });
}
std::uint32_t ballot(bool bit);

void copy_async_bytes(void* to_shared, const void* from_global, int bytes, bool valid);
inline void copy_async_16(void* to_shared, const void* from_global, bool valid) {
    copy_async_bytes(to_shared, from_global, 16, valid);
}
template <int bytes>
inline void copy_async(void* to_shared, const void* from_global, bool valid) {
    static_assert(bytes == 4 || bytes == 8);
    copy_async_bytes(to_shared, from_global, bytes, valid);
}
inline void copy_async_commit(Site where = Site::current()) {
    if (!emulator::removed(where)) emulator::current().copies.commit();
}
template <int pending>
inline void copy_async_wait(Site where = Site::current()) {
    const auto groups = emulator::still_pending(pending, where);
    if (groups) emulator::current().copies.complete(*groups);
}

void load_tiles(std::uint32_t (&tiles)[4], const void* row);
void load_tiles_transposed(std::uint32_t (&tiles)[4], const void* row);

namespace detail {
using Widen = float (*)(std::uint16_t bits);
void multiply_add(float (&c)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
                  Widen widen);
template <class T>
float widen_bits(std::uint16_t bits) {
    return to_float(T{bits});
}
}  // namespace detail
template <class T>
inline void multiply_add(float (&c)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
    detail::multiply_add(c, a, b, &detail::widen_bits<T>);
}

}  // namespace gptrain::cuda
