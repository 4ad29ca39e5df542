#include "model/slices.h"

#include <memory>

namespace gptrain {
namespace {

constexpr int along_sequence = 1;

/// Views [B S, W] as [B, S, W].
Tensor by_sequence(const Tensor& x, std::int64_t sequences) {
    return x.view({sequences, div_exact(x.size(0), sequences), x.size(1)});
}

Shape whole_shape(const ModelContext& context, const Tensor& slice) {
    return {slice.size(0) * context.mesh.tp().size(), slice.size(1)};
}

/// True if a rank's rows lie in several stripes, which have to be sent one by one.
bool striped(const ModelContext& context) {
    return context.tensor_pieces > 1 && context.sequences == 1;
}

std::int64_t sequences_of_piece(const ModelContext& context) {
    return striped(context) ? 1 : div_exact(context.sequences, context.tensor_pieces);
}

Pending gather(const ModelContext& context, const Tensor& whole, const Tensor& slice,
               std::int64_t sequences) {
    return context.mesh.tp().all_gather(by_sequence(whole, sequences),
                                        by_sequence(slice, sequences), along_sequence);
}

Pending sum(const ModelContext& context, const Tensor& slice, const Tensor& part,
            std::int64_t sequences) {
    return context.mesh.tp().reduce_scatter(by_sequence(slice, sequences),
                                            by_sequence(part, sequences), along_sequence);
}

Pending gather_piece(const ModelContext& context, const Tensor& whole, const Tensor& slice,
                     std::int64_t i) {
    return gather(context, rows_of_piece(context, whole, i), rows_of_piece(context, slice, i),
                  sequences_of_piece(context));
}

/// start(i) for each piece, as one operation.
Pending start_pieces(const ModelContext& context, const auto& start) {
    const auto pieces = std::make_shared<std::vector<Pending>>();
    for (std::int64_t i = 0; i < context.tensor_pieces; ++i)
        pieces->push_back(start(i));
    return Pending([pieces] {
        for (Pending& piece : *pieces)
            piece.wait();
    });
}

}  // namespace

Tensor rows_of_piece(const ModelContext& context, const Tensor& x, std::int64_t i) {
    if (x.empty() || context.tensor_pieces == 1) return x;
    const std::int64_t rows = div_exact(x.size(0), context.tensor_pieces);
    return x.slice(0, i * rows, rows);
}

Fp8Matrix rows_of_piece(const ModelContext& context, const Fp8Matrix& x, std::int64_t i) {
    return {.rowwise = rows_of_piece(context, x.rowwise, i), .columnwise = {}, .scale = x.scale};
}

Pending gather_slices(const ModelContext& context, const Tensor& whole, const Tensor& slice) {
    if (!striped(context)) return gather(context, whole, slice, context.sequences);
    return start_pieces(context,
                        [&](std::int64_t i) { return gather_piece(context, whole, slice, i); });
}

ArrivingRows::ArrivingRows(const ModelContext& context, const Tensor& x)
    : whole_(allocate_whole(context, x)) {
    if (!context.sequence_parallel) return;
    for (std::int64_t i = 0; i < context.tensor_pieces; ++i)
        pieces_.push_back(gather_piece(context, whole_, x, i));
}

void ArrivingRows::wait(std::int64_t i) {
    if (!pieces_.empty()) pieces_[static_cast<std::size_t>(i)].wait();
}

void ArrivingRows::wait() {
    for (Pending& piece : pieces_)
        piece.wait();
}

Tensor gather_rows(const ModelContext& context, const Tensor& x) {
    if (!context.sequence_parallel) return x;
    const Tensor whole = allocate_whole(context, x);
    gather_slices(context, whole, x).wait();
    return whole;
}

Tensor amax_of_all_rows(const ModelContext& context, const LinearOperand& x) {
    return context.sequence_parallel ? Tensor() : x.amax;
}

Tensor allocate_whole(const ModelContext& context, const Tensor& x) {
    if (!context.sequence_parallel) return x;
    return context.workspace().allocate(x.dtype(), whole_shape(context, x));
}

Pending reduce_parts(const ModelContext& context, const Tensor& x, const Tensor& part) {
    if (!context.sequence_parallel) return context.mesh.tp().all_reduce(x, Reduce::sum);
    if (!striped(context)) return sum(context, x, part, context.sequences);
    return start_pieces(context, [&](std::int64_t i) { return reduce_piece(context, x, part, i); });
}

Pending reduce_piece(const ModelContext& context, const Tensor& x, const Tensor& part,
                     std::int64_t i) {
    if (!context.sequence_parallel) return reduce_parts(context, x, part);
    return sum(context, rows_of_piece(context, x, i), rows_of_piece(context, part, i),
               sequences_of_piece(context));
}

}  // namespace gptrain
