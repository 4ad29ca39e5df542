#include "cuda/ops/row_order.cuh"

#include <bit>
#include <utility>

#include "cuda/device/reduce.cuh"
#include "cuda/device/unrolled.cuh"
#include "cuda/ops/scratch_sizes.h"

namespace gptrain::cuda {
namespace {

constexpr int block_size = 256;
constexpr int block_warps = block_size / warp_threads;
/// Tokens per block; each of its warps handles `rounds` times 32 adjacent tokens.
constexpr int rounds = 8;
constexpr int tile = row_order_tile;
static_assert(tile == block_size * rounds);
constexpr int max_digits = 1 << row_order_digit_bits;
constexpr int scan_threads = 1024;

/// One pass: sorts by one digit of the row numbers, from `from` to `to`.
struct Pass {
    TokenRows tokens;
    const int* from;  ///< null: tokens in their own order
    int* to;
    unsigned* counts;  ///< [digit][tile]: counts, which the scan turns into destinations
    int shift;
    int digit_bits;

    __device__ int tiles() const { return (tokens.tokens + tile - 1) / tile; }
    __device__ int digits() const { return 1 << digit_bits; }
    __device__ int token(int i) const { return from == nullptr ? i : from[i]; }
    __device__ int digit(int token) const { return tokens.row_of(token) >> shift & (digits() - 1); }
};

struct CountShared {
    unsigned counts[max_digits];
};

__global__ void __launch_bounds__(block_size) count_digits(Pass pass) {
    auto& [counts] = shared_memory<CountShared>();
    for (int digit = thread_index(); digit < pass.digits(); digit += block_size)
        counts[digit] = 0;
    block_barrier();
    const int first = block_index().x * tile + thread_index();
    for (int i = 0; i < rounds; ++i) {
        const int at = first + i * block_size;
        if (at < pass.tokens.tokens) atomic_add(&counts[pass.digit(pass.token(at))], 1);
    }
    block_barrier();
    for (int digit = thread_index(); digit < pass.digits(); digit += block_size)
        pass.counts[digit * pass.tiles() + block_index().x] = counts[digit];
}

struct ScanShared {
    unsigned warps[scan_threads / warp_threads];
};

/// Exclusive prefix sum of the counts, by one block.
__global__ void __launch_bounds__(scan_threads) scan_counts(unsigned* counts, int size) {
    auto& [warps] = shared_memory<ScanShared>();
    const int warp = warp_index();
    const int share = (size + scan_threads - 1) / scan_threads;
    const int begin = thread_index() * share;
    const int end = begin + share < size ? begin + share : size;
    unsigned own = 0;
    for (int i = begin; i < end; ++i)
        own += counts[i];
    unsigned before = sum_of_lanes_before(own);
    if (lane_index() == warp_threads - 1) warps[warp] = before + own;
    block_barrier();
    if (warp == 0) warps[lane_index()] = sum_of_lanes_before(warps[lane_index()]);
    block_barrier();
    before += warps[warp];
    for (int i = begin; i < end; ++i)
        before += std::exchange(counts[i], before);
}

struct OffsetShared {
    /// First how many of the digit's tokens in the tile this warp has, then the destination of its
    /// first one.
    unsigned offsets[block_warps][max_digits];
};

/// Lanes of the warp that have the same digit, ignoring those that are not `valid`.
__device__ inline std::uint32_t lanes_with_digit(int digit, int digit_bits, bool valid) {
    std::uint32_t lanes = ballot(valid);
    for (int bit = 0; bit < digit_bits; ++bit) {
        const bool one = (digit >> bit & 1) != 0;
        const std::uint32_t ones = ballot(one);
        lanes &= one ? ones : ~ones;
    }
    return lanes;
}

__global__ void __launch_bounds__(block_size) place_tokens(Pass pass) {
    auto& [offsets] = shared_memory<OffsetShared>();
    unsigned(&own)[max_digits] = offsets[warp_index()];
    for (int digit = lane_index(); digit < pass.digits(); digit += warp_threads)
        own[digit] = 0;
    const int first = (block_index().x * block_warps + warp_index()) * rounds * warp_threads;
    int token[rounds] = {};
    int digit[rounds] = {};
    unsigned rank[rounds] = {};
    unrolled<rounds>([&](int i) {
        const int at = first + i * warp_threads + lane_index();
        if (at >= pass.tokens.tokens) return;
        token[i] = pass.token(at);
        digit[i] = pass.digit(token[i]);
    });
    unrolled<rounds>([&](int i) {
        const bool valid = first + i * warp_threads + lane_index() < pass.tokens.tokens;
        const std::uint32_t lanes = lanes_with_digit(digit[i], pass.digit_bits, valid);
        const int before = bits_set(lanes & ((1u << lane_index()) - 1));
        warp_barrier();
        const unsigned seen = own[digit[i]];
        warp_barrier();
        if (valid && before == 0) own[digit[i]] = seen + static_cast<unsigned>(bits_set(lanes));
        rank[i] = seen + static_cast<unsigned>(before);
    });
    block_barrier();
    for (int of = thread_index(); of < pass.digits(); of += block_size) {
        unsigned offset = pass.counts[of * pass.tiles() + block_index().x];
        for (int warp = 0; warp < block_warps; ++warp)
            offset += std::exchange(offsets[warp][of], offset);
    }
    block_barrier();
    unrolled<rounds>([&](int i) {
        const int at = first + i * warp_threads + lane_index();
        if (at < pass.tokens.tokens) pass.to[own[digit[i]] + rank[i]] = token[i];
    });
}

void run(const Pass& pass, const Stream& stream) {
    const std::int64_t tiles = div_ceil(pass.tokens.tokens, tile);
    launch(stream, {.blocks = tiles, .threads = block_size, .shared_bytes = sizeof(CountShared)},
           count_digits, pass);
    launch(stream, {.blocks = 1, .threads = scan_threads, .shared_bytes = sizeof(ScanShared)},
           scan_counts, pass.counts, static_cast<int>(tiles << pass.digit_bits));
    launch(stream, {.blocks = tiles, .threads = block_size, .shared_bytes = sizeof(OffsetShared)},
           place_tokens, pass);
}

}  // namespace

const int* sort_by_row(const TokenRows& tokens, const OpContext& context) {
    int* to = context.scratch.take<int>(tokens.tokens);
    int* other = context.scratch.take<int>(tokens.tokens);
    auto* counts = context.scratch.take<unsigned>(row_order_counts(tokens.tokens));
    const int bits = std::bit_width(static_cast<unsigned>(tokens.table_rows));
    const int passes = (bits + row_order_digit_bits - 1) / row_order_digit_bits;
    const int digit_bits = (bits + passes - 1) / passes;
    const int* from = nullptr;
    for (int pass = 0; pass < passes; ++pass) {
        run({tokens, from, to, counts, pass * digit_bits, digit_bits}, context.stream);
        from = to;
        std::swap(to, other);
    }
    return from;
}

}  // namespace gptrain::cuda
