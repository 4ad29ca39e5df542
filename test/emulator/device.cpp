// The parts of test/emulator/cuda/device/device.cuh that many threads do together.
#include "cuda/device/device.cuh"

#include <algorithm>
#include <array>

#include "base/text.h"
#include "emulator/counts.h"
#include "emulator/races.h"

namespace gptrain::cuda {
namespace {

constexpr std::byte poison{0xff};

emulator::NamedBarrier& named_barrier(int barrier, int threads) {
    if (barrier < 1 || barrier > 15) emulator::fault(text("barrier ", barrier));
    if (threads % warp_threads != 0 || threads > block_threads()) {
        emulator::fault(text("a barrier of ", threads, " threads"));
    }
    emulator::NamedBarrier& state = emulator::current().block->named[barrier];
    if (state.arrived > 0 && state.threads != threads) {
        emulator::fault(text("barrier ", barrier, " of ", threads, " and of ", state.threads,
                             " threads at a time"));
    }
    state.threads = threads;
    return state;
}

void arrive(emulator::NamedBarrier& state) {
    emulator::note_progress();
    emulator::current().publish(state.arriving);
    if (++state.arrived < state.threads) return;
    for (emulator::Thread* thread : state.waiting)
        thread->known = state.arriving;
    state.waiting.clear();
    state.arriving = {};
    state.arrived = 0;
    ++state.generation;
}

void note_atomic(const void* p, const char* what, const Site& where) {
    emulator::check_access(p, 4, 4, what);
    if (!emulator::removed(where)) {
        emulator::note_access(p, 4, emulator::AccessKind::atomic, what);
    } else {
        emulator::note_access(p, 4, emulator::AccessKind::read, what);
        emulator::note_access(p, 4, emulator::AccessKind::write, what);
    }
}

}  // namespace

unsigned atomic_add(unsigned* p, unsigned x, Site where) {
    note_atomic(p, "atomic_add", where);
    emulator::note_progress();
    const unsigned before = std::exchange(*p, *p + x);
    if (!emulator::is_shared(p, sizeof *p)) emulator::give_way();
    return before;
}

void atomic_max_not_negative(float* p, float x, Site where) {
    note_atomic(p, "atomic_max_not_negative", where);
    if (!(x >= 0)) emulator::fault("atomic_max_not_negative of a negative number");
    *p = std::max(*p, x);
}

unsigned load_acquire(const unsigned* p, Site where) {
    emulator::check_access(p, 4, 4, "load_acquire");
    emulator::note_access(p, 4, emulator::AccessKind::atomic, "load_acquire");
    if (!emulator::removed(where)) emulator::acquire_at(p);
    return *p;
}

void store_release(unsigned* p, unsigned value, Site where) {
    emulator::check_access(p, 4, 4, "store_release");
    emulator::note_access(p, 4, emulator::AccessKind::atomic, "store_release");
    if (!emulator::removed(where)) emulator::release_at(p);
    *p = value;
    emulator::note_progress();
}

void warp_barrier(Site where) {
    if (emulator::removed(where)) return;
    static constexpr char kind = 0;
    emulator::meet(warp_threads, &kind, "warp_barrier", &emulator::current(),
                   [](std::vector<void*>& lanes) {
                       std::vector<emulator::Thread*> threads;
                       for (void* lane : lanes)
                           threads.push_back(static_cast<emulator::Thread*>(lane));
                       emulator::order(threads);
                   });
}

void barrier_wait(int barrier, int threads, Site where) {
    if (emulator::removed(where)) return;
    emulator::NamedBarrier& state = named_barrier(barrier, threads);
    const std::uint64_t generation = state.generation;
    state.waiting.push_back(&emulator::current());
    arrive(state);
    emulator::wait_until("barrier_wait", state.generation,
                         [&] { return state.generation != generation; });
}

void barrier_arrive(int barrier, int threads, Site where) {
    if (!emulator::removed(where)) arrive(named_barrier(barrier, threads));
}

std::uint32_t ballot(bool bit) {
    static constexpr char kind = 0;
    std::uint32_t word = bit ? 1 : 0;
    emulator::meet(warp_threads, &kind, "ballot", &word, [](std::vector<void*>& lanes) {
        std::uint32_t all = 0;
        for (std::size_t lane = 0; lane < lanes.size(); ++lane)
            all |= *static_cast<std::uint32_t*>(lanes[lane]) << lane;
        for (void* lane : lanes)
            *static_cast<std::uint32_t*>(lane) = all;
    });
    return word;
}

void copy_async_bytes(void* to_shared, const void* from_global, int bytes, bool valid) {
    const auto size = static_cast<std::size_t>(bytes);
    emulator::check_shared(to_shared, size, size, "copy_async");
    if (valid) emulator::check_access(from_global, size, size, "copy_async");
    emulator::Thread& thread = emulator::current();
    emulator::count_access(
        {thread.block, thread.index, to_shared, size, __builtin_return_address(0)});
    emulator::CopyGroups& copies = thread.copies;
    const emulator::Operation operation = copies.open();
    if (valid) {
        emulator::note_access_of(operation, from_global, size, emulator::AccessKind::read,
                                 "a read by copy_async");
    }
    emulator::note_access_of(operation, to_shared, size, emulator::AccessKind::write,
                             "a write by copy_async");
    std::memset(to_shared, static_cast<int>(poison), size);
    copies.add([=] {
        if (valid) {
            std::memcpy(to_shared, from_global, size);
        } else {
            std::memset(to_shared, 0, size);
        }
    });
}

namespace {

struct TileArgument {
    std::uint32_t* tiles;
    const std::uint16_t* row;
};

/// Element (row, col) of a tile whose rows the lanes provide.
std::uint16_t element(const std::vector<void*>& lanes, int tile, int row, int col) {
    return static_cast<TileArgument*>(lanes[static_cast<std::size_t>(tile * 8 + row)])->row[col];
}

void load_tiles_as(std::uint32_t (&tiles)[4], const void* row, bool transposed, const void* kind) {
    emulator::check_shared(row, 16, 16, "load_tiles");
    emulator::note_access(row, 16, emulator::AccessKind::read, "a read by load_tiles");
    TileArgument argument = {tiles, static_cast<const std::uint16_t*>(row)};
    emulator::meet(warp_threads, kind, "load_tiles", &argument, [&](std::vector<void*>& lanes) {
        std::vector<const void*> rows;
        for (const void* lane : lanes)
            rows.push_back(static_cast<const TileArgument*>(lane)->row);
        emulator::count_rows(rows);
        for (int lane = 0; lane < warp_threads; ++lane) {
            const int g = lane / 4;
            const int t = lane % 4 * 2;
            for (int tile = 0; tile < 4; ++tile) {
                const std::uint32_t low =
                    transposed ? element(lanes, tile, t, g) : element(lanes, tile, g, t);
                const std::uint32_t high =
                    transposed ? element(lanes, tile, t + 1, g) : element(lanes, tile, g, t + 1);
                static_cast<TileArgument*>(lanes[static_cast<std::size_t>(lane)])->tiles[tile] =
                    low | high << 16;
            }
        }
    });
}

}  // namespace

void load_tiles(std::uint32_t (&tiles)[4], const void* row) {
    static constexpr char kind = 0;
    load_tiles_as(tiles, row, false, &kind);
}

void load_tiles_transposed(std::uint32_t (&tiles)[4], const void* row) {
    static constexpr char kind = 0;
    load_tiles_as(tiles, row, true, &kind);
}

namespace detail {
namespace {

struct ProductArgument {
    float* c;
    const std::uint32_t* a;
    const std::uint32_t* b;
};

}  // namespace

void multiply_add(float (&c)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
                  Widen widen) {
    ProductArgument argument = {c, a, b};
    const auto work = [widen](std::vector<void*>& lanes) {
        emulator::count_products(1, 2.0 * 16 * 8 * 16);
        const auto at = [&](int lane) -> const ProductArgument& {
            return *static_cast<ProductArgument*>(lanes[static_cast<std::size_t>(lane)]);
        };
        const auto half = [widen](std::uint32_t word, int which) {
            return widen(static_cast<std::uint16_t>(word >> (16 * which)));
        };
        std::array<std::array<float, 16>, 16> left;  // by row, then by term
        std::array<std::array<float, 8>, 16> right;  // by term, then by column
        for (int lane = 0; lane < warp_threads; ++lane) {
            const auto g = static_cast<std::size_t>(lane / 4);
            const auto t = static_cast<std::size_t>(lane % 4 * 2);
            for (std::size_t i = 0; i < 2; ++i) {
                const int which = static_cast<int>(i);
                left[g][t + i] = half(at(lane).a[0], which);
                left[g + 8][t + i] = half(at(lane).a[1], which);
                left[g][t + 8 + i] = half(at(lane).a[2], which);
                left[g + 8][t + 8 + i] = half(at(lane).a[3], which);
                right[t + i][g] = half(at(lane).b[0], which);
                right[t + 8 + i][g] = half(at(lane).b[1], which);
            }
        }
        std::array<std::array<float, 8>, 16> sums = {};  // a row at once, which compilers vectorise
        for (std::size_t row = 0; row < 16; ++row) {
            for (std::size_t k = 0; k < 16; ++k)
                for (std::size_t col = 0; col < 8; ++col)
                    sums[row][col] += left[row][k] * right[k][col];
        }
        for (int lane = 0; lane < warp_threads; ++lane) {
            const auto g = static_cast<std::size_t>(lane / 4);
            const auto t = static_cast<std::size_t>(lane % 4 * 2);
            float* out = at(lane).c;
            out[0] += sums[g][t];
            out[1] += sums[g][t + 1];
            out[2] += sums[g + 8][t];
            out[3] += sums[g + 8][t + 1];
        }
    };
    static constexpr char kind = 0;
    emulator::meet(warp_threads, &kind, "multiply_add", &argument, work);
}

}  // namespace detail
}  // namespace gptrain::cuda
