// Products of a warpgroup and register reallocation (test/emulator/cuda/device/hopper.cuh).
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/fp8.h"
#include "base/text.h"
#include "cuda/device/hopper.cuh"
#include "emulator/counts.h"
#include "emulator/operand_layout.h"
#include "emulator/races.h"

namespace gptrain::cuda {
namespace {

constexpr int warpgroup_threads = 128;
constexpr int warpgroup_warps = warpgroup_threads / warp_threads;
constexpr int mma_rows = 64;
/// Elements of k: of 16 bits, and of FP8.
constexpr int mma_length = 16;
constexpr int fp8_length = 2 * mma_length;

using emulator::OperandLayout;
using emulator::SharedOperand;
using emulator::WarpgroupProduct;

const std::byte* address_of(const OperandLayout& layout, int i, int k) {
    const std::byte* address = emulator::current().block->shared + layout.offset(i, k);
    emulator::check_shared(address, 2, 2, "an operand of a product");
    return address;
}

/// As many elements as dtype has in a row; the others are 0.
using Rows = std::vector<std::array<float, fp8_length>>;

float value_of(const std::byte* at, DType dtype) {
    const auto as = [at](auto type) {
        std::memcpy(&type, at, sizeof type);
        return to_float(type);
    };
    switch (dtype) {
        case DType::f8e4m3: return as(F8E4M3{});
        case DType::f8e5m2: return as(F8E5M2{});
        case DType::f16: return as(F16{});
        default: return as(Bf16{});
    }
}

Rows rows_of(const SharedOperand& operand, int count, DType dtype) {
    const OperandLayout layout(operand);
    Rows rows(static_cast<std::size_t>(count));
    const std::int64_t each = 2 / size_of(dtype);  // elements in 16 bits
    for (int i = 0; i < count; ++i) {
        for (std::int64_t k = 0; k < mma_length * each; ++k) {
            const std::byte* address = address_of(layout, i, static_cast<int>(k / each)) + k % each;
            rows[static_cast<std::size_t>(i)][static_cast<std::size_t>(k)] =
                value_of(address, dtype);
        }
    }
    return rows;
}

/// c plus the products of FP8, as H100s are measured to add them (docs/numerics.md, "FP8"): each
/// addend is cut to 13 bits behind the largest one's first.
float fp8_sum(float c, const std::array<float, fp8_length>& a,
              const std::array<float, fp8_length>& b) {
    constexpr int bits = 13;
    std::array<float, fp8_length + 1> addends = {c};
    float largest = std::abs(c);
    bool finite = std::isfinite(c);
    for (std::size_t k = 0; k < a.size(); ++k) {
        const float x = addends[k + 1] = a[k] * b[k];
        finite = finite && std::isfinite(x);
        largest = std::max(largest, std::abs(x));
    }
    if (!finite) return std::numeric_limits<float>::quiet_NaN();
    if (largest == 0) return 0;
    const float unit = std::ldexp(1.0f, std::ilogb(largest) - bits);
    std::int32_t units = 0;
    for (const float x : addends)
        units += static_cast<std::int32_t>(x * (1 / unit));
    return static_cast<float>(units) * unit;
}

/// The knowledge that all threads of the warpgroup had when they issued the product.
emulator::Knowledge known_to_all(const std::vector<const WarpgroupProduct*>& products) {
    emulator::Knowledge known = products.front()->known;
    for (const WarpgroupProduct* product : products)
        known.meet(product->known);
    return known;
}

/// Notes that each warp's part of the product reads the whole operand, 16 bytes at a time.
void note_reads(const SharedOperand& operand, int count, const emulator::Knowledge& known) {
    if (operand.in_registers()) return;
    const OperandLayout layout(operand);
    const emulator::Block& block = *emulator::current().block;
    const int first = emulator::current().index / warpgroup_threads * warpgroup_warps;
    const int across = operand.k_major ? 1 : 8;
    for (int warp = first; warp < first + warpgroup_warps; ++warp) {
        const emulator::Time time = block.products_done[static_cast<std::size_t>(warp)] + 1;
        for (int i = 0; i < count; i += across) {
            for (int k = 0; k < mma_length; k += 8 / across) {
                emulator::note_product_read(address_of(layout, i, k), 16, known,
                                            block.products_of(warp), time);
            }
        }
    }
}

/// Row and column of a thread's first element of a fragment.
struct Lane {
    std::size_t row;
    std::size_t col;
    explicit Lane(std::size_t thread)
        : row(thread / 32 * 16 + thread % 32 / 4), col(thread % 4 * 2) {}
};

Rows rows_in_registers(const std::vector<const WarpgroupProduct*>& products) {
    Rows rows(mma_rows);
    for (std::size_t thread = 0; thread < products.size(); ++thread) {
        const Lane lane(thread);
        for (std::size_t i = 0; i < 4; ++i) {
            const std::uint32_t word = products[thread]->a_registers[i];
            auto& row = rows[lane.row + i % 2 * 8];
            const std::size_t col = lane.col + i / 2 * 8;
            row[col] = to_float(Bf16{static_cast<std::uint16_t>(word)});
            row[col + 1] = to_float(Bf16{static_cast<std::uint16_t>(word >> 16)});
        }
    }
    return rows;
}

/// The operands in shared memory are read once for all warps, without bank conflicts: their rows
/// are swizzled (OperandLayout).
void count(const WarpgroupProduct& product) {
    constexpr std::int64_t row_bytes = 2 * mma_length;
    const int length = size_of(product.dtype) == 1 ? fp8_length : mma_length;
    emulator::count_products(warpgroup_warps, 2.0 * mma_rows * product.columns * length);
    if (!product.a.in_registers()) emulator::count_bytes(mma_rows * row_bytes);
    emulator::count_bytes(product.columns * row_bytes);
}

/// Computes one product for all threads of the warpgroup, in their hidden accumulators.
void multiply(const std::vector<emulator::Thread*>& threads,
              const std::vector<const WarpgroupProduct*>& products) {
    const WarpgroupProduct& first = *products.front();
    for (const WarpgroupProduct* other : products) {
        if (!first.same_for_all(*other)) {
            emulator::fault("a product whose operands differ between threads of the warpgroup");
        }
    }
    count(first);
    if (emulator::looks_for_races()) {
        const emulator::Knowledge known = known_to_all(products);
        note_reads(first.a, mma_rows, known);
        note_reads(first.b, first.columns, known);
    }
    const Rows a = first.a.in_registers() ? rows_in_registers(products)
                                          : rows_of(first.a, mma_rows, first.dtype);
    const bool fp8 = size_of(first.dtype) == 1;
    const Rows b = rows_of(first.b, first.columns, fp8 ? DType::f8e4m3 : first.dtype);
    const auto added = [&](float c, std::size_t row, std::size_t col) {
        if (fp8) return fp8_sum(c, a[row], b[col]);
        float sum = 0;
        for (std::size_t k = 0; k < mma_length; ++k)
            sum += a[row][k] * b[col][k];
        return c + sum;
    };
    for (std::size_t thread = 0; thread < threads.size(); ++thread) {
        const Lane lane(thread);
        std::vector<float>& c = threads[thread]->accumulators[products[thread]->c];
        for (std::size_t i = 0; i < c.size(); ++i) {
            c[i] = added(first.accumulate ? c[i] : 0, lane.row + i % 4 / 2 * 8,
                         lane.col + i / 4 * 8 + i % 2);
        }
    }
}

bool in_flight(const emulator::Thread& thread, const float* c) {
    const auto writes = [c](const WarpgroupProduct& product) { return product.c == c; };
    return std::any_of(thread.open_products.begin(), thread.open_products.end(), writes) ||
           std::any_of(thread.products.begin(), thread.products.end(), [&](const auto& group) {
               return std::any_of(group.begin(), group.end(), writes);
           });
}

void complete_oldest_group(const std::vector<emulator::Thread*>& threads) {
    const std::size_t count = threads.front()->products.front().size();
    for (const emulator::Thread* thread : threads) {
        if (thread->products.empty() || thread->products.front().size() != count) {
            emulator::fault("threads of the warpgroup have committed different products");
        }
    }
    for (std::size_t i = 0; i < count; ++i) {
        std::vector<const WarpgroupProduct*> products;
        for (const emulator::Thread* thread : threads)
            products.push_back(&thread->products.front()[i]);
        multiply(threads, products);
    }
    for (emulator::Thread* thread : threads) {
        thread->products.pop_front();
        emulator::Block& block = *thread->block;
        const int warp = thread->index / warp_threads;
        emulator::Time& done = block.products_done[static_cast<std::size_t>(warp)];
        if (thread->index % warp_threads == 0) ++done;
        thread->known.all.raise(block.serial, block.products_of(warp), done);
    }
}

}  // namespace

void warpgroup_commit(Site where) {
    if (emulator::removed(where)) return;
    emulator::Thread& thread = emulator::current();
    thread.products.push_back(std::exchange(thread.open_products, {}));
    thread.products_fenced = false;
}

void show_sums(float* c) {
    emulator::Thread& thread = emulator::current();
    const auto sums = thread.accumulators.find(c);
    if (sums == thread.accumulators.end() || in_flight(thread, c)) return;
    std::copy(sums->second.begin(), sums->second.end(), c);
    thread.accumulators.erase(sums);
}

void warpgroup_wait_for_all_but(int pending) {
    static constexpr char kind = 0;
    struct Argument {
        emulator::Thread* thread;
        int pending;
    } argument = {&emulator::current(), pending};
    emulator::meet(warpgroup_threads, &kind, "warpgroup_wait", &argument,
                   [pending](std::vector<void*>& arguments) {
                       std::vector<emulator::Thread*> threads;
                       for (void* each : arguments) {
                           const auto& other = *static_cast<Argument*>(each);
                           if (other.pending != pending) {
                               emulator::fault("a warpgroup_wait for different counts");
                           }
                           threads.push_back(other.thread);
                       }
                       while (std::ssize(threads.front()->products) > pending)
                           complete_oldest_group(threads);
                   });
}

namespace detail {

void issue(WarpgroupProduct product) {
    emulator::Thread& thread = emulator::current();
    if (emulator::settings().major != 9) emulator::fault("a warpgroup's product on this device");
    if (!thread.products_fenced) emulator::fault("products that no warpgroup_fence precedes");
    product.known = thread.known;
    const auto size = static_cast<std::size_t>(product.columns / 2);
    if (!thread.accumulators.contains(product.c)) {
        thread.accumulators[product.c].assign(product.c, product.c + size);
        std::fill(product.c, product.c + size, std::numeric_limits<float>::quiet_NaN());
    }
    thread.open_products.push_back(std::move(product));
}

void check_registers(int registers) {
    if (registers < 24 || registers > 256 || registers % 8 != 0) {
        emulator::fault(text(registers, " registers a thread"));
    }
    static constexpr char kind = 0;
    emulator::meet(warpgroup_threads, &kind, "register reallocation", nullptr, [](auto&) {});
}

}  // namespace detail

namespace {

struct TileArgument {
    const std::uint32_t* tiles;
    std::uint16_t* row;
};

void store_tiles_as(void* row, const std::uint32_t (&tiles)[4], bool transposed, const void* kind) {
    emulator::check_shared(row, 16, 16, "store_tiles");
    emulator::note_access(row, 16, emulator::AccessKind::write, "a write by store_tiles");
    TileArgument argument = {tiles, static_cast<std::uint16_t*>(row)};
    emulator::meet(warp_threads, kind, "store_tiles", &argument, [&](std::vector<void*>& lanes) {
        std::vector<const void*> rows;
        for (const void* lane : lanes)
            rows.push_back(static_cast<const TileArgument*>(lane)->row);
        emulator::count_rows(rows);
        const auto at = [&](int lane) -> const TileArgument& {
            return *static_cast<TileArgument*>(lanes[static_cast<std::size_t>(lane)]);
        };
        for (int lane = 0; lane < warp_threads; ++lane) {
            for (int tile = 0; tile < 4; ++tile) {
                for (int half = 0; half < 2; ++half) {
                    const int i = lane / 4;
                    const int j = lane % 4 * 2 + half;
                    const auto value =
                        static_cast<std::uint16_t>(at(lane).tiles[tile] >> 16 * half);
                    at(tile * 8 + (transposed ? j : i)).row[transposed ? i : j] = value;
                }
            }
        }
    });
}

}  // namespace

void store_tiles(void* row, const std::uint32_t (&tiles)[4]) {
    static constexpr char kind = 0;
    store_tiles_as(row, tiles, false, &kind);
}

void store_tiles_transposed(void* row, const std::uint32_t (&tiles)[4]) {
    static constexpr char kind = 0;
    store_tiles_as(row, tiles, true, &kind);
}

}  // namespace gptrain::cuda
