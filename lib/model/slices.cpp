#include "model/slices.h"

#include <memory>

#include "base/at.h"
#include "comm/byte_runs.h"

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
    return context.tensor_pieces > 1 && context.sequences == 1 && !context.pieces_by_rank;
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

/// Piece i of the sum.
Pending sum_piece(const ModelContext& context, const Tensor& slice, const Tensor& part,
                  std::int64_t i) {
    return sum(context, rows_of_piece(context, slice, i), rows_of_piece(context, part, i),
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

/// The ranks of tp by pieces: rank = piece * ranks_of_piece + index.
struct RankPieces {
    int pieces;
    int ranks_of_piece;
    int piece;  ///< of this rank
    int index;

    explicit RankPieces(const ModelContext& context)
        : pieces(narrow<int>(context.tensor_pieces)),
          ranks_of_piece(narrow<int>(div_exact(context.mesh.tp().size(), pieces))),
          piece(context.mesh.tp().rank() / ranks_of_piece),
          index(context.mesh.tp().rank() % ranks_of_piece) {}

    /// The rank that is so many pieces, and then so many ranks of a piece, after this one, or
    /// before it if both are negative. Each rank is at one distance from each other one.
    int at_distance(int of_pieces, int of_ranks) const {
        const auto turn = [](int value, int count) { return (value % count + count) % count; };
        return turn(piece + of_pieces, pieces) * ranks_of_piece +
               turn(index + of_ranks, ranks_of_piece);
    }
};

/// All pieces from `first` on.
std::vector<std::int64_t> pieces_from(const ModelContext& context, std::int64_t first) {
    std::vector<std::int64_t> order;
    for (std::int64_t i = 0; i < context.tensor_pieces; ++i)
        order.push_back((first + i) % context.tensor_pieces);
    return order;
}

/// A rank's slice of the whole rows of one sequence.
Tensor slice_of(const ModelContext& context, const Tensor& whole, int rank) {
    return part_of(whole, 0, rank, context.mesh.tp().size());
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
    : context_(context),
      whole_(allocate_whole(context, x)),
      pieces_(static_cast<std::size_t>(context.tensor_pieces)) {
    if (!context.sequence_parallel) return;
    if (!context.pieces_by_rank) {
        for (std::int64_t i = 0; i < context.tensor_pieces; ++i)
            at(pieces_, i).push_back(gather_piece(context, whole_, x, i));
        return;
    }
    Communicator& tp = context.mesh.tp();
    const RankPieces ranks(context);
    context.backend.copy(slice_of(context, whole_, tp.rank()), x);
    for (const std::int64_t i : order()) {
        const int distance = narrow<int>(i) - ranks.piece;
        for (int other = 0; other < ranks.ranks_of_piece; ++other) {
            const int from = ranks.at_distance(distance, other);
            if (from == tp.rank()) continue;
            at(pieces_, i)
                .push_back(tp.send_recv(x, ranks.at_distance(-distance, -other),
                                        slice_of(context, whole_, from), from));
        }
    }
}

std::vector<std::int64_t> ArrivingRows::order() const {
    return pieces_from(context_, context_.pieces_by_rank ? RankPieces(context_).piece : 0);
}

void ArrivingRows::wait(std::int64_t i) {
    for (Pending& message : at(pieces_, i))
        message.wait();
}

void ArrivingRows::wait() {
    for (std::int64_t i = 0; i < context_.tensor_pieces; ++i)
        wait(i);
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
    return start_pieces(context, [&](std::int64_t i) { return sum_piece(context, x, part, i); });
}

LeavingRows::LeavingRows(const ModelContext& context, const Tensor& x, const Tensor& part)
    : context_(context), x_(x), part_(part) {
    if (!context.pieces_by_rank) return;
    arrived_ = context.workspace().allocate(part.dtype(), {context.mesh.tp().size(), x.elements()});
}

std::vector<std::int64_t> LeavingRows::order() const {
    return pieces_from(context_, context_.pieces_by_rank ? RankPieces(context_).piece + 1 : 0);
}

void LeavingRows::send(std::int64_t i) {
    if (!context_.sequence_parallel) {
        sums_.push_back(reduce_parts(context_, x_, part_));
        return;
    }
    if (!context_.pieces_by_rank) {
        sums_.push_back(sum_piece(context_, x_, part_, i));
        return;
    }
    Communicator& tp = context_.mesh.tp();
    const RankPieces ranks(context_);
    const int distance = narrow<int>(i) - ranks.piece;
    const auto place = [&](int rank) { return arrived_.slice(0, rank, 1).view({x_.elements()}); };
    for (int other = 0; other < ranks.ranks_of_piece; ++other) {
        const int to = ranks.at_distance(distance, other);
        const int from = ranks.at_distance(-distance, -other);
        const Tensor rows = slice_of(context_, part_, to).view({x_.elements()});
        if (to == tp.rank()) {
            context_.backend.copy(place(to), rows);
        } else {
            sums_.push_back(tp.send_recv(rows, to, place(from), from));
        }
    }
}

void LeavingRows::wait() {
    for (Pending& sum : sums_)
        sum.wait();
    if (!context_.pieces_by_rank) return;
    context_.backend.run(SumRows{.to = x_, .rows = arrived_});
}

}  // namespace gptrain
