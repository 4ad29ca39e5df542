#include <numeric>
#include <vector>

#include "base/at.h"
#include "base/checked.h"
#include "model/context_attention.h"
#include "model/packed_qkv.h"

namespace gptrain {
namespace {

/// Operations in flight.
using Exchanges = std::vector<Pending>;

void wait_for(Exchanges& exchanges) {
    for (Pending& exchange : exchanges)
        exchange.wait();
}

/// Exchanges slices of the sequence for shares of the heads, and back. Each share is cut into equal
/// pieces, so that one is sent while another is used. A message [B, ranks, S, heads, D] holds, for
/// each rank, a piece of its share of the heads over this rank's slice. A "whole" tensor [B, ranks
/// S, heads, D] holds a piece of this rank's share over whole sequences.
class HeadExchange {
public:
    HeadExchange(const ContextForward& args, const ContextRanks& resources)
        : resources_(resources),
          ranks_(resources.cp.size()),
          sequences_(args.o.size(0)),
          length_(args.o.size(1)),
          dim_(args.o.size(3)),
          dtype_(args.o.dtype()),
          pieces_(std::gcd(resources.pieces, share(groups_of(args)))),
          heads_(div_exact(share(args.o.size(2)), pieces_)),
          groups_(div_exact(share(groups_of(args)), pieces_)) {}

    std::int64_t pieces() const { return pieces_; }
    /// Counts in a piece.
    std::int64_t heads() const { return heads_; }
    std::int64_t groups() const { return groups_; }
    std::int64_t packed() const { return heads_ + 2 * groups_; }
    std::int64_t first_head(std::int64_t piece) const {
        return (resources_.cp.rank() * pieces_ + piece) * heads_;
    }

    /// Memory for `count` heads over whole sequences.
    Tensor whole(std::int64_t count) const {
        return resources_.workspace.allocate(dtype_, whole_shape(count));
    }
    Tensor message(std::int64_t count) const {
        return resources_.workspace.allocate(dtype_, {sequences_, ranks_, length_, count, dim_});
    }
    /// Views the memory of all heads over one slice as this rank's share of the heads over whole
    /// sequences, piece by piece.
    Tensor whole_qkv(const Tensor& qkv, std::int64_t piece) const {
        return memory_of(qkv, piece).reinterpret(dtype_, whole_shape(packed()));
    }
    Tensor whole_lse(const Tensor& lse, std::int64_t piece) const {
        return memory_of(lse, piece)
            .reinterpret(DType::f32, {sequences_, heads_, ranks_ * length_});
    }

    /// Copies a piece of each share of the heads of this rank's slice into the message, from head
    /// `at` on. `unpack` copies it back.
    void pack(const Tensor& message, std::int64_t at, const Tensor& slice,
              std::int64_t piece) const {
        const Tensor heads = piece_of_shares(slice, piece);
        resources_.backend.copy(part_of_all(message, at, heads.size(3)), heads);
    }
    void unpack(const Tensor& slice, std::int64_t piece, const Tensor& message,
                std::int64_t at) const {
        const Tensor heads = piece_of_shares(slice, piece);
        resources_.backend.copy(heads, part_of_all(message, at, heads.size(3)));
    }

    /// Starts to exchange `from` for `to` among the ranks. One of the two is a message, the other a
    /// whole tensor.
    Exchanges start(const Tensor& to, const Tensor& from) const {
        // Within one sequence the parts are contiguous on both sides.
        const Tensor to_parts = parts(to);
        const Tensor from_parts = parts(from);
        Exchanges pending;
        pending.reserve(static_cast<std::size_t>(sequences_));
        for (std::int64_t b = 0; b < sequences_; ++b)
            pending.push_back(resources_.cp.all_to_all(to_parts.at(b), from_parts.at(b)));
        return pending;
    }

    /// first_visible of all slices, [B, ranks S].
    Tensor gathered(const Tensor& first_visible) const {
        if (first_visible.empty() || ranks_ == 1) return first_visible;
        const Tensor all =
            resources_.workspace.allocate(first_visible.dtype(), {sequences_, ranks_ * length_});
        resources_.cp.all_gather(all, first_visible, 1).wait();
        return all;
    }

private:
    std::int64_t share(std::int64_t count) const {
        GPTRAIN_CHECK(count % ranks_ == 0, count, " heads or groups for ", ranks_, " ranks");
        return count / ranks_;
    }
    Shape whole_shape(std::int64_t count) const {
        return {sequences_, ranks_ * length_, count, dim_};
    }
    static std::int64_t groups_of(const ContextForward& args) {
        return div_exact(args.qkv.size(2) - args.o.size(2), 2);
    }
    Tensor memory_of(const Tensor& x, std::int64_t piece) const {
        return x.view({pieces_, div_exact(x.elements(), pieces_)}).slice(0, piece, 1);
    }
    /// [B, S, ranks, heads, D]
    Tensor piece_of_shares(const Tensor& slice, std::int64_t piece) const {
        const std::int64_t heads = share(slice.size(2));
        return slice.view({sequences_, length_, ranks_, heads, dim_})
            .slice(3, piece * heads / pieces_, heads / pieces_);
    }
    /// The `count` heads of each rank, as [B, S, ranks, count, D].
    static Tensor part_of_all(const Tensor& message, std::int64_t at, std::int64_t count) {
        return message.slice(3, at, count).transpose(1, 2);
    }
    /// The ranks' parts of each sequence, [B, ranks, n].
    Tensor parts(const Tensor& x) const {
        return x.view({sequences_, ranks_, x.elements() / (sequences_ * ranks_)});
    }

    const ContextRanks& resources_;
    std::int64_t ranks_;
    std::int64_t sequences_;
    std::int64_t length_;
    std::int64_t dim_;
    DType dtype_;
    std::int64_t pieces_;
    std::int64_t heads_;
    std::int64_t groups_;
};

PackedQkv split_local(const Tensor& packed, const Tensor& o) {
    return split_qkv(packed, o.size(2), div_exact(packed.size(2) - o.size(2), 2));
}

/// Attention over the whole sequences in args.qkv, for a piece of this rank's share of the heads.
AttentionForward local_attention(const ContextForward& args, const HeadExchange& exchange,
                                 std::int64_t piece, const Tensor& first_visible, const Tensor& o) {
    const PackedQkv in =
        split_qkv(exchange.whole_qkv(args.qkv, piece), exchange.heads(), exchange.groups());
    Dropout dropout = args.dropout;
    dropout.head_begin += exchange.first_head(piece);
    Alibi alibi = args.alibi;
    alibi.head_begin += exchange.first_head(piece);
    return {.q = in.q,
            .k = in.k,
            .v = in.v,
            .o = o,
            .lse = exchange.whole_lse(args.lse, piece),
            .q_begin = args.first_query,
            .first_visible = first_visible,
            .window = args.window,
            .dropout = dropout,
            .softcap = args.softcap,
            .alibi = alibi};
}

/// Numbers of this rank's share of the heads, or empty.
Tensor share_of_heads(const Tensor& of_heads, const HeadExchange& exchange, std::int64_t piece) {
    if (of_heads.empty()) return {};
    return of_heads.slice(0, exchange.first_head(piece), exchange.heads());
}

}  // namespace

void all_to_all_attention_forward(const ContextForward& args, const ContextRanks& resources) {
    const ArenaFrame frame(resources.workspace);
    const HeadExchange exchange(args, resources);
    const PackedQkv local = split_local(args.qkv, args.o);
    std::vector<Tensor> sent;
    for (std::int64_t i = 0; i < exchange.pieces(); ++i) {
        sent.push_back(exchange.message(exchange.packed()));
        exchange.pack(sent.back(), 0, local.q, i);
        exchange.pack(sent.back(), exchange.heads(), local.k, i);
        exchange.pack(sent.back(), exchange.heads() + exchange.groups(), local.v, i);
    }
    // They arrive in the memory of the local q, k and v.
    std::vector<Exchanges> arriving;
    for (std::int64_t i = 0; i < exchange.pieces(); ++i) {
        arriving.push_back(exchange.start(exchange.whole_qkv(args.qkv, i), at(sent, i)));
    }
    const Tensor first_visible = exchange.gathered(args.first_visible);
    std::vector<Tensor> outputs;
    std::vector<Exchanges> returning;
    for (std::int64_t i = 0; i < exchange.pieces(); ++i) {
        const Tensor o = exchange.whole(exchange.heads());
        outputs.push_back(exchange.message(exchange.heads()));
        wait_for(at(arriving, i));
        const AttentionForward attention = local_attention(args, exchange, i, first_visible, o);
        resources.backend.run(attention);
        if (!args.sinks.empty()) {
            resources.backend.run(SinkForward{
                .sinks = share_of_heads(args.sinks, exchange, i), .o = o, .lse = attention.lse});
        }
        returning.push_back(exchange.start(outputs.back(), o));
    }
    for (std::int64_t i = 0; i < exchange.pieces(); ++i) {
        wait_for(at(returning, i));
        exchange.unpack(args.o, i, at(outputs, i), 0);
    }
}

void all_to_all_attention_backward(const ContextBackward& args, const ContextRanks& resources) {
    const ArenaFrame frame(resources.workspace);
    const HeadExchange exchange(args.forward, resources);
    const std::int64_t heads = exchange.heads();
    const std::int64_t groups = exchange.groups();
    std::vector<Tensor> both;  // o and its gradient
    std::vector<Exchanges> arriving;
    for (std::int64_t i = 0; i < exchange.pieces(); ++i) {
        both.push_back(exchange.whole(2 * heads));
        const Tensor message = exchange.message(2 * heads);
        exchange.pack(message, 0, args.forward.o, i);
        exchange.pack(message, heads, args.d_o, i);
        arriving.push_back(exchange.start(both.back(), message));
    }
    const Tensor first_visible = exchange.gathered(args.forward.first_visible);
    std::vector<Tensor> gradients;
    std::vector<Exchanges> returning;
    for (std::int64_t i = 0; i < exchange.pieces(); ++i) {
        const Tensor whole = exchange.whole(exchange.packed());
        gradients.push_back(exchange.message(exchange.packed()));
        const PackedQkv out = split_qkv(whole, heads, groups);
        const Tensor& o = at(both, i);
        wait_for(at(arriving, i));
        const AttentionForward forward =
            local_attention(args.forward, exchange, i, first_visible, o.slice(2, 0, heads));
        const Tensor d_o = o.slice(2, heads, heads);
        resources.backend.run(AttentionBackward{
            .forward = forward, .d_o = d_o, .dq = out.q, .dk = out.k, .dv = out.v});
        if (!args.dsinks.empty()) {
            resources.backend.run(
                SinkBackward{.sinks = share_of_heads(args.forward.sinks, exchange, i),
                             .o = forward.o,
                             .lse = forward.lse,
                             .d_o = d_o,
                             .dsinks = share_of_heads(args.dsinks, exchange, i)});
        }
        returning.push_back(exchange.start(gradients.back(), whole));
    }
    const PackedQkv local = split_local(args.dqkv, args.forward.o);
    for (std::int64_t i = 0; i < exchange.pieces(); ++i) {
        const Tensor& message = at(gradients, i);
        wait_for(at(returning, i));
        exchange.unpack(local.q, i, message, 0);
        exchange.unpack(local.k, i, message, heads);
        exchange.unpack(local.v, i, message, heads + groups);
    }
}

}  // namespace gptrain
