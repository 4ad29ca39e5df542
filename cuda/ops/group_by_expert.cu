#include "cuda/ops/expert_rows.h"
#include "cuda/ops/row_order.cuh"

namespace gptrain::cuda {
namespace {

constexpr int block_size = 256;

/// Thread r handles row r of the sorted slots. The one past the last row ends the last experts.
__global__ void __launch_bounds__(block_size)
    number_rows_kernel(TokenRows experts, const int* order, std::int32_t* offsets,
                       std::int32_t* slots, std::int32_t* places) {
    const int row = block_index().x * block_size + thread_index();
    if (row > experts.tokens) return;
    set_begins(experts, order, row, offsets);
    if (row == experts.tokens) return;
    const bool has_row = experts.row_of(order[row]) < experts.table_rows;
    if (has_row) slots[row] = order[row];
    places[order[row]] = has_row ? row : -1;
}

}  // namespace

void run(const GroupByExpert& args, const OpContext& context) {
    const std::int64_t count = args.chosen.elements();
    const std::int64_t experts = args.offsets.elements() - 1;
    GPTRAIN_CHECK(args.chosen.contiguous() && args.places.elements() == count &&
                      args.slots.elements() >= count && experts >= 1 && count <= INT32_MAX / 2,
                  "slots ", args.chosen.shape().to_text(), " of ", experts, " experts");
    const TokenRows tokens = {.rows = args.chosen.as<std::int32_t>(),
                              .begin = 0,
                              .tokens = static_cast<int>(count),
                              .table_rows = static_cast<int>(experts)};
    const int* order = count == 0 ? nullptr : sort_by_row(tokens, context);
    launch(context.stream, {.blocks = div_ceil(count + 1, block_size), .threads = block_size},
           number_rows_kernel, tokens, order, args.offsets.as<std::int32_t>(),
           args.slots.as<std::int32_t>(), args.places.as<std::int32_t>());
}

}  // namespace gptrain::cuda
