#include "cuda/ops/sent_rows.h"

#include <algorithm>

#include "cuda/device/pieces.cuh"
#include "cuda/runtime/context.h"

namespace gptrain::cuda {
namespace {

constexpr int block_size = 256;
constexpr std::int64_t most_blocks = 32;
using Byte = std::uint8_t;

struct SentPart {
    Byte* to;
    const Byte* from;
    const std::int32_t* slots;
    std::int64_t rows;
};

struct SentParts {
    SentPart parts[most_peers] = {};
    int row_bytes;
};

/// A block copies every n-th row of a part, the part of its y; n: the blocks of a part.
template <bool aligned>
__global__ void __launch_bounds__(block_size) send_rows_kernel(SentParts args) {
    const SentPart part = args.parts[block_index().y];
    for (std::int64_t row = block_index().x; row < part.rows; row += grid_blocks().x) {
        if (part.slots[row] < 0) continue;
        const Byte* from = part.from + row * args.row_bytes;
        Byte* to = part.to + row * args.row_bytes;
        for (int at = thread_index() * piece_width<Byte>; at < args.row_bytes;
             at += block_size * piece_width<Byte>) {
            store_piece_once<aligned>(to, at, args.row_bytes,
                                      load_piece_once<aligned>(from, at, args.row_bytes));
        }
    }
}

}  // namespace

void send_rows(std::span<const SentRows> parts, const Stream& stream) {
    GPTRAIN_CHECK(parts.size() <= most_peers, parts.size(), " parts");
    if (parts.empty()) return;
    const std::int64_t bytes = parts.front().row_bytes;
    GPTRAIN_CHECK(bytes <= piece_bytes, "rows of ", bytes, " bytes");
    SentParts args = {.row_bytes = static_cast<int>(bytes)};
    bool aligned = true;
    std::int64_t rows = 1;
    for (std::size_t i = 0; i < parts.size(); ++i) {
        const SentRows& part = parts[i];
        GPTRAIN_CHECK(part.row_bytes == bytes, "rows of ", part.row_bytes, " and ", bytes,
                      " bytes");
        args.parts[i] = {.to = reinterpret_cast<Byte*>(part.to),
                         .from = reinterpret_cast<const Byte*>(part.from),
                         .slots = part.slots,
                         .rows = part.rows};
        aligned = aligned && is_aligned(args.parts[i].to, bytes, bytes) &&
                  is_aligned(args.parts[i].from, bytes, bytes);
        rows = std::max(rows, part.rows);
    }
    const auto count = static_cast<std::int64_t>(parts.size());
    launch(stream,
           {.blocks = std::min(rows, std::max<std::int64_t>(1, most_blocks / count)),
            .threads = block_size,
            .blocks_y = count},
           aligned ? send_rows_kernel<true> : send_rows_kernel<false>, args);
}

}  // namespace gptrain::cuda
