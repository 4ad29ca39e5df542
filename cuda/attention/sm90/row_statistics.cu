#include "cuda/attention/sm90/row_statistics.h"

#include "cuda/attention/gradient.cuh"
#include "cuda/attention/sm90/tiles.cuh"

namespace gptrain::cuda::sm90 {
namespace {

constexpr int statistics_threads = 256;

struct StatisticsArgs {
    AttentionParams p;
    HeadTensor d_o;
    RowStatistics* statistics;  ///< [B, N, padded]
    int padded;
    std::int64_t pieces;  ///< pieces of statistics_rows rows per head
};

/// Rows per warp: four loads of each tensor are in flight at a time.
template <int dim>
constexpr int statistics_rows = 4 * warp_threads * 8 / dim;

/// A warp handles some rows of a head. Adjacent warps handle adjacent heads, which are adjacent in
/// memory.
template <int dim>
__global__ void __launch_bounds__(statistics_threads) statistics_kernel(StatisticsArgs args) {
    constexpr int lanes = dim / 8;  ///< lanes per row
    constexpr int rows_at_once = warp_threads / lanes;
    constexpr int steps = statistics_rows<dim> / rows_at_once;
    const AttentionParams& p = args.p;
    const std::int64_t piece =
        std::int64_t{block_index().x} * (statistics_threads / warp_threads) + warp_index();
    if (piece >= args.pieces) return;
    const int head = static_cast<int>(piece % p.heads);
    const int pieces_of_head = args.padded / statistics_rows<dim>;
    const int sequence = static_cast<int>(piece / p.heads / pieces_of_head);
    const int row0 = static_cast<int>(piece / p.heads % pieces_of_head) * statistics_rows<dim>;
    const Bf16* o = p.o.template head<Bf16>(sequence, head);
    const Bf16* d_o = args.d_o.template head<Bf16>(sequence, head);
    const int column = lane_index() % lanes * 8;
    Vec16<Bf16> x[steps];
    Vec16<Bf16> dx[steps];
    unrolled<steps>([&](int i) {
        const int row = row0 + i * rows_at_once + lane_index() / lanes;
        x[i] = dx[i] = {};
        if (row >= p.queries) return;
        x[i] = load_once(reinterpret_cast<const Vec16<Bf16>*>(o + row * p.o.row_stride + column));
        dx[i] = load_constant(
            reinterpret_cast<const Vec16<Bf16>*>(d_o + row * args.d_o.row_stride + column));
    });
    unrolled<steps>([&](int i) {
        float sum = 0;
        unrolled<8>([&](int e) { sum = fma(widen(x[i][e]), widen(dx[i][e]), sum); });
        for (int mask = lanes / 2; mask > 0; mask /= 2)
            sum += shuffle_xor(sum, mask);
        const int row = row0 + i * rows_at_once + lane_index() / lanes;
        if (lane_index() % lanes != 0) return;
        const float lse = row < p.queries ? p.lse[p.lse_row(sequence, head) + row] : -infinity;
        args.statistics[(std::int64_t{sequence} * p.heads + head) * args.padded + row] = {
            lse_log2(lse), sum};
    });
}

/// Visible keys of each tile of queries of each sequence, [B, query_tiles]; one warp per tile.
__global__ void __launch_bounds__(warp_threads)
    ranges_kernel(AttentionParams p, int rows, KeyRange* ranges) {
    const int tiles = grid_blocks().x;
    const int sequence = block_index().y;
    const KeyRange range = visible_keys(p, sequence, block_index().x * rows, rows);
    if (lane_index() == 0) ranges[sequence * tiles + block_index().x] = range;
}

template <int dim>
void launch_statistics(const AttentionParams& p, const HeadTensor& d_o, int padded,
                       RowStatistics* statistics, const Stream& stream) {
    constexpr int warps = statistics_threads / warp_threads;
    const std::int64_t pieces =
        std::int64_t{p.sequences} * p.heads * (padded / statistics_rows<dim>);
    const StatisticsArgs args = {p, d_o, statistics, padded, pieces};
    launch(stream, {.blocks = div_ceil(pieces, warps), .threads = statistics_threads},
           statistics_kernel<dim>, args);
}

}  // namespace

void compute_row_statistics(const AttentionParams& p, const HeadTensor& d_o, int padded,
                            RowStatistics* statistics, const Stream& stream) {
    p.head_dim == 64 ? launch_statistics<64>(p, d_o, padded, statistics, stream)
                     : launch_statistics<128>(p, d_o, padded, statistics, stream);
}

void compute_ranges(const AttentionParams& p, int rows, int query_tiles, KeyRange* ranges,
                    const Stream& stream) {
    launch(stream, {.blocks = query_tiles, .threads = warp_threads, .blocks_y = p.sequences},
           ranges_kernel, p, rows, ranges);
}

}  // namespace gptrain::cuda::sm90
