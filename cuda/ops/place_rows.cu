#include <algorithm>

#include "cuda/device/reduce.cuh"
#include "cuda/ops/expert_rows.h"
#include "cuda/ops/row_order.cuh"
#include "tensor/dtype_switch.h"

namespace gptrain::cuda {
namespace {

constexpr int block_size = 256;

struct PlaceArgs {
    TokenRows ranks;    ///< the rank of each slot
    const int* order;   ///< the slots sorted by rank
    const int* begins;  ///< [P + 1]: where the slots of each rank begin in `order`
    const std::int32_t* chosen;
    const float* weights;
    int experts_per_rank;
    int length;  ///< C
    std::int32_t* places;
    std::int32_t* slots;
    std::int32_t* experts;
    float* weighted;
    double* unplaced;  ///< may be null

    __device__ int rows() const { return ranks.table_rows * length; }
};

__device__ inline int thread_of_grid() {
    return block_index().x * block_size + thread_index();
}

/// Thread i handles slot i.
__global__ void __launch_bounds__(block_size)
    find_ranks_kernel(const std::int32_t* chosen, int count, int experts_per_rank,
                      std::int32_t* ranks) {
    const int slot = thread_of_grid();
    if (slot >= count) return;
    const int expert = chosen[slot];
    ranks[slot] = expert < 0 ? -1 : expert / experts_per_rank;
}

__global__ void __launch_bounds__(block_size)
    find_begins_kernel(TokenRows ranks, const int* order, int* begins) {
    const int at = thread_of_grid();
    if (at <= ranks.tokens) set_begins(ranks, order, at, begins);
}

__device__ inline void fill_row(const PlaceArgs& args, int row) {
    const int rank = row / args.length;
    const int at = args.begins[rank] + row % args.length;
    const bool has_slot = at < args.begins[rank + 1];
    const int slot = has_slot ? args.order[at] : -1;
    args.slots[row] = slot;
    args.experts[row] = has_slot ? args.chosen[slot] - rank * args.experts_per_rank : -1;
    args.weighted[row] = has_slot ? args.weights[slot] : 0;
}

/// The slot at a position of the order. Its place takes the place of its rank.
__device__ inline void place_slot(const PlaceArgs& args, int at) {
    const int slot = args.order[at];
    const int rank = args.ranks.row_of(slot);
    const int before = at - args.begins[rank];
    const bool fits = rank < args.ranks.table_rows && before < args.length;
    args.places[slot] = fits ? rank * args.length + before : -1;
}

/// For one warp. The sum is of integers, so exact.
__device__ inline void count_unplaced(const PlaceArgs& args) {
    double count = 0;
    for (int rank = lane_index(); rank < args.ranks.table_rows; rank += warp_threads) {
        const int over = args.begins[rank + 1] - args.begins[rank] - args.length;
        if (over > 0) count += over;
    }
    count = warp_sum(count);
    if (lane_index() == 0) *args.unplaced += count;
}

/// Thread i handles row i of the messages, and the slot at position i of the order.
__global__ void __launch_bounds__(block_size) place_rows_kernel(PlaceArgs args) {
    const int i = thread_of_grid();
    if (i < args.rows()) fill_row(args, i);
    if (i < args.ranks.tokens) place_slot(args, i);
    if (args.unplaced != nullptr && block_index().x == 0 && warp_index() == 0) count_unplaced(args);
}

LaunchShape thread_for_each(std::int64_t count) {
    return {.blocks = div_ceil(count, block_size), .threads = block_size};
}

}  // namespace

void run(const PlaceRows& args, const OpContext& context) {
    const std::int64_t count = args.chosen.elements();
    const std::int64_t ranks = args.slots.size(0);
    const std::int64_t rows = args.slots.elements();
    GPTRAIN_CHECK(args.chosen.contiguous() && args.weights.contiguous() &&
                      args.weights.elements() == count && args.places.elements() == count &&
                      args.experts.elements() == rows && args.weighted.elements() == rows &&
                      rows >= 1 && args.experts_per_rank >= 1 && count <= INT32_MAX / 2 &&
                      rows <= INT32_MAX / 2 && ranks * args.experts_per_rank <= INT32_MAX,
                  "slots ", args.chosen.shape().to_text(), " in messages ",
                  args.slots.shape().to_text(), " of ", args.experts_per_rank, " experts per rank");
    const auto* chosen = args.chosen.as<std::int32_t>();
    auto* places = args.places.as<std::int32_t>();
    const auto experts_per_rank = static_cast<int>(args.experts_per_rank);
    // Slots have their rank where their place comes.
    launch(context.stream, thread_for_each(count), find_ranks_kernel, chosen,
           static_cast<int>(count), experts_per_rank, places);
    const TokenRows of_slots = {.rows = places,
                                .begin = 0,
                                .tokens = static_cast<int>(count),
                                .table_rows = static_cast<int>(ranks)};
    const int* order = count == 0 ? nullptr : sort_by_row(of_slots, context);
    int* begins = context.scratch.take<int>(ranks + 1);
    launch(context.stream, thread_for_each(count + 1), find_begins_kernel, of_slots, order, begins);
    launch(context.stream, thread_for_each(std::max(rows, count)), place_rows_kernel,
           PlaceArgs{.ranks = of_slots,
                     .order = order,
                     .begins = begins,
                     .chosen = chosen,
                     .weights = args.weights.as<float>(),
                     .experts_per_rank = experts_per_rank,
                     .length = static_cast<int>(args.slots.size(1)),
                     .places = places,
                     .slots = args.slots.as<std::int32_t>(),
                     .experts = args.experts.as<std::int32_t>(),
                     .weighted = args.weighted.as<float>(),
                     .unplaced = pointer_or_null<double>(args.unplaced)});
}

}  // namespace gptrain::cuda
