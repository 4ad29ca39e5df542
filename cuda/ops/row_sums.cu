#include "cuda/ops/row_sums.h"

#include "cuda/device/pieces.cuh"
#include "cuda/device/unrolled.cuh"
#include "cuda/ops/row_order.cuh"
#include "cuda/ops/scratch_sizes.h"
#include "tensor/dtype_switch.h"

namespace gptrain::cuda {
namespace {

constexpr int chunk = row_sums_chunk;

/// Partial sums of rows that span chunks, all in scratch memory.
struct Parts {
    float* heads;     ///< [chunks][H]: of the row that continues from the previous chunk
    float* tails;     ///< [chunks][H]: of the row that continues in the next chunk
    int* first_rows;  ///< [chunks]
    int* tail_rows;   ///< [chunks], -1 without a tail
};

template <class T>
struct SumArgs {
    TokenRows tokens;
    const int* order;
    const T* x;
    float* table;
    int hidden;
    Parts parts;
    float scale;
};

struct SpanningArgs {
    Parts parts;
    float* table;
    int hidden;
    int chunks;
};

/// fp32 values for one piece of T.
template <class T>
struct Sums {
    Vec16<float> parts[piece_width<T> / 4] = {};
    __device__ float& operator[](int i) { return parts[i / 4][i % 4]; }
};

template <bool aligned, class T>
__device__ inline Sums<T> load_sums(const float* row, int at, int size) {
    Sums<T> sums;
    for (int i = 0; i < piece_width<T> / 4; ++i)
        sums.parts[i] = load_piece<aligned>(row, at + 4 * i, size);
    return sums;
}
template <bool aligned, class T>
__device__ inline void store_sums(float* row, int at, int size, const Sums<T>& sums) {
    for (int i = 0; i < piece_width<T> / 4; ++i)
        store_piece<aligned>(row, at + 4 * i, size, sums.parts[i]);
}

/// The action after a token is added.
enum class Action { keep_adding, add_to_table, store_head, store_tail };

/// The tokens of a chunk.
struct ChunkShared {
    int tokens[chunk];
    int rows[chunk + 2];  ///< from the token before the chunk to the one after it; -1: none
    Action actions[chunk];

    __device__ int row(int i) const { return rows[i + 1]; }
};

/// Returns how many tokens of the chunk have a row in the table; these come first.
template <class T>
__device__ inline int load_chunk(const SumArgs<T>& args, ChunkShared& shared) {
    const int begin = block_index().x * chunk;
    for (int i = thread_index() - 1; i <= chunk; i += block_threads()) {
        const int at = begin + i;
        const bool valid = at >= 0 && at < args.tokens.tokens;
        const int token = valid ? args.order[at] : 0;
        const int row = valid ? args.tokens.row_of(token) : args.tokens.table_rows;
        shared.rows[i + 1] = row < args.tokens.table_rows ? row : -1;
        if (i >= 0 && i < chunk) shared.tokens[i] = token;
    }
    block_barrier();
    int count = chunk;
    while (count > 0 && shared.row(count - 1) < 0)
        --count;
    for (int i = thread_index(); i < count; i += block_threads()) {
        const int row = shared.row(i);
        const bool last = i == count - 1;
        shared.actions[i] = !last && shared.row(i + 1) == row  ? Action::keep_adding
                            : shared.row(-1) == row            ? Action::store_head
                            : last && shared.row(count) == row ? Action::store_tail
                                                               : Action::add_to_table;
    }
    block_barrier();
    return count;
}

/// Records the chunk's rows for add_spanning_rows.
__device__ inline void record_rows(const Parts& parts, const ChunkShared& shared, int count) {
    const bool tail = count > 0 && shared.actions[count - 1] == Action::store_tail;
    parts.first_rows[block_index().x] = shared.row(0);
    parts.tail_rows[block_index().x] = tail ? shared.row(count - 1) : -1;
}

template <class T, bool aligned>
__global__ void __launch_bounds__(256, 2) sum_chunks(SumArgs<T> args) {
    auto& shared = shared_memory<ChunkShared>();
    const int count = load_chunk(args, shared);
    if (block_index().y == 0 && thread_index() == 0) record_rows(args.parts, shared, count);
    const int at = thread_piece<T>();
    if (at >= args.hidden) return;
    const std::int64_t hidden = args.hidden;
    float* head = args.parts.heads + block_index().x * hidden;
    float* tail = args.parts.tails + block_index().x * hidden;
    Sums<T> sum;
    constexpr int unroll = 4;
    for (int first = 0; first < count; first += unroll) {
        Vec16<T> x[unroll] = {};
        Sums<T> old[unroll] = {};
        unrolled<unroll>([&](int i) {
            if (first + i >= count) return;
            const std::int64_t token = shared.tokens[first + i];
            x[i] = load_piece_once<aligned>(args.x + token * hidden, at, args.hidden);
            if (shared.actions[first + i] != Action::add_to_table) return;
            const float* row = args.table + shared.row(first + i) * hidden;
            old[i] = load_sums<aligned, T>(row, at, args.hidden);
        });
        unrolled<unroll>([&](int i) {
            if (first + i >= count) return;
            for (int k = 0; k < piece_width<T>; ++k)
                sum[k] = fma(widen(x[i][k]), args.scale, sum[k]);
            const Action action = shared.actions[first + i];
            if (action == Action::keep_adding) return;
            for (int k = 0; k < piece_width<T>; ++k)
                sum[k] = old[i][k] + sum[k];
            float* to = action == Action::store_head ? head
                        : action == Action::store_tail
                            ? tail
                            : args.table + shared.row(first + i) * hidden;
            store_sums<aligned>(to, at, args.hidden, sum);
            sum = {};
        });
    }
}

// ---- rows with tokens in several chunks ---------------------------------------------------------

constexpr int spanning_threads = 256;
constexpr int spanning_warps = spanning_threads / warp_threads;
/// Columns per block: one piece per lane.
constexpr int spanning_columns = warp_threads * piece_width<float>;

struct SpanningShared {
    Vec16<float> sums[spanning_warps][warp_threads];
};

/// The last chunk that starts with the row of chunk `begin`'s tail.
__device__ inline int last_chunk_of(const SpanningArgs& args, int row, int begin) {
    int last = begin + 1;
    int beyond = args.chunks;
    while (beyond - last > 1) {
        const int middle = (last + beyond) / 2;
        (args.parts.first_rows[middle] == row ? last : beyond) = middle;
    }
    return last;
}

/// A block handles the row that starts in its own chunk: its warps share the row's chunks, then the
/// first warp adds their sums.
template <bool aligned>
__global__ void __launch_bounds__(spanning_threads) add_spanning_rows(SpanningArgs args) {
    auto& [sums] = shared_memory<SpanningShared>();
    const int warp = warp_index();
    const int begin = block_index().x;
    const int row = args.parts.tail_rows[begin];
    if (row < 0) return;
    const int parts = last_chunk_of(args, row, begin) - begin + 1;
    const int at = block_index().y * spanning_columns + lane_index() * piece_width<float>;
    const std::int64_t hidden = args.hidden;
    Vec16<float> sum = {};
    constexpr int unroll = 4;
    for (int first = warp; at < args.hidden && first < parts; first += unroll * spanning_warps) {
        Vec16<float> values[unroll] = {};
        unrolled<unroll>([&](int i) {
            const int part = first + i * spanning_warps;
            if (part >= parts) return;
            const float* from =
                (part == 0 ? args.parts.tails : args.parts.heads) + (begin + part) * hidden;
            values[i] = load_piece<aligned>(from, at, args.hidden);
        });
        for (const Vec16<float>& value : values) {
            for (int k = 0; k < piece_width<float>; ++k)
                sum[k] = sum[k] + value[k];
        }
    }
    sums[warp][lane_index()] = sum;
    block_barrier();
    if (warp != 0 || at >= args.hidden) return;
    float* to = args.table + row * hidden;
    Vec16<float> total = load_piece<aligned>(to, at, args.hidden);
    for (int i = 0; i < spanning_warps; ++i) {
        for (int k = 0; k < piece_width<float>; ++k)
            total[k] = total[k] + sums[i][lane_index()][k];
    }
    store_piece<aligned>(to, at, args.hidden, total);
}

Parts take_parts(std::int64_t chunks, std::int64_t hidden, Scratch& scratch) {
    return {.heads = scratch.take<float>(chunks * hidden),
            .tails = scratch.take<float>(chunks * hidden),
            .first_rows = scratch.take<int>(chunks),
            .tail_rows = scratch.take<int>(chunks)};
}

template <class T>
void add(const RowSums& op, const TokenRows& tokens, const OpContext& context) {
    const std::int64_t hidden = op.x.size(1);
    const std::int64_t chunks = div_ceil(tokens.tokens, chunk);
    const SumArgs<T> args = {.tokens = tokens,
                             .order = sort_by_row(tokens, context),
                             .x = op.x.as<T>(),
                             .table = op.table.as<float>(),
                             .hidden = static_cast<int>(hidden),
                             .parts = take_parts(chunks, hidden, context.scratch),
                             .scale = op.scale};
    const bool aligned =
        is_aligned(args.x, hidden, hidden) && is_aligned(args.table, hidden, hidden);
    const PieceGrid grid = piece_grid(1, hidden, piece_width<T>);
    launch(context.stream,
           {.blocks = chunks,
            .threads = grid.threads,
            .shared_bytes = sizeof(ChunkShared),
            .blocks_y = grid.columns},
           aligned ? sum_chunks<T, true> : sum_chunks<T, false>, args);
    // The last chunk has no tail.
    launch(context.stream,
           {.blocks = chunks - 1,
            .threads = spanning_threads,
            .shared_bytes = sizeof(SpanningShared),
            .blocks_y = div_ceil(hidden, spanning_columns)},
           aligned ? add_spanning_rows<true> : add_spanning_rows<false>,
           SpanningArgs{args.parts, args.table, args.hidden, static_cast<int>(chunks)});
}

}  // namespace

void add_rows(const RowSums& args, const OpContext& context) {
    const std::int64_t count = args.rows.elements();
    GPTRAIN_CHECK(args.x.rank() == 2 && args.x.size(0) == count && args.table.rank() == 2 &&
                      args.table.size(1) == args.x.size(1) && count <= INT32_MAX / 2 &&
                      args.table.size(0) < INT32_MAX && args.x.size(1) <= INT32_MAX,
                  "rows ", args.x.shape().to_text(), " to add to ", args.table.shape().to_text());
    if (count == 0) return;
    const TokenRows tokens = {.rows = args.rows.as<std::int32_t>(),
                              .begin = args.begin,
                              .tokens = static_cast<int>(count),
                              .table_rows = static_cast<int>(args.table.size(0))};
    with_compute_type(args.x.dtype(),
                      [&](auto type) { add<decltype(type)>(args, tokens, context); });
}

}  // namespace gptrain::cuda
