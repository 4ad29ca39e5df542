#include <vector>

#include "base/checked.h"
#include "model/context_attention.h"

namespace gptrain {
namespace {

/// The sizes of a call, and the exchange of slices for heads: of messages [B, ranks, S, heads, D],
/// to or from each rank the heads of its share in this rank's slice, for whole sequences
/// [B, ranks S, heads, D], or back.
class HeadExchange {
public:
    HeadExchange(const ContextForward& args, const ContextRanks& by)
        : by_(by),
          ranks_(by.cp.size()),
          sequences_(args.o.size(0)),
          length_(args.o.size(1)),
          dim_(args.o.size(3)),
          dtype_(args.o.dtype()),
          heads_(share(args.o.size(2))),
          groups_(share(div_exact(args.qkv.size(2) - args.o.size(2), 2))) {}

    /// Of this rank's share.
    std::int64_t heads() const { return heads_; }
    std::int64_t groups() const { return groups_; }
    std::int64_t packed() const { return heads_ + 2 * groups_; }
    std::int64_t first_head() const { return by_.cp.rank() * heads_; }

    /// Memory for so many heads of whole sequences.
    Tensor whole(std::int64_t count) const {
        return by_.workspace.allocate(dtype_, whole_shape(count));
    }
    Tensor message(std::int64_t count) const {
        return by_.workspace.allocate(dtype_, {sequences_, ranks_, length_, count, dim_});
    }
    /// The memory of all heads in one slice, for one share of them in whole sequences.
    Tensor whole_qkv(const Tensor& qkv) const {
        return qkv.reinterpret(dtype_, whole_shape(packed()));
    }
    Tensor whole_lse(const Tensor& lse) const {
        return lse.reinterpret(DType::f32, {sequences_, heads_, ranks_ * length_});
    }

    /// All heads of one's own slice, into the messages for their ranks from head `at` on.
    void put(const Tensor& message, std::int64_t at, const Tensor& slice) const {
        const Shape shares = shape_of_shares(slice);
        by_.backend.copy(part_of_all(message, at, shares[3]), slice.view(shares));
    }
    void take(const Tensor& slice, const Tensor& message, std::int64_t at) const {
        const Shape shares = shape_of_shares(slice);
        by_.backend.copy(slice.view(shares), part_of_all(message, at, shares[3]));
    }

    /// `to` = what the other ranks have for this one in `from`; one is a message, the other whole.
    void run(const Tensor& to, const Tensor& from) const {
        // The parts of one sequence lie side by side on both sides.
        std::vector<Pending> pending;
        for (std::int64_t b = 0; b < sequences_; ++b)
            pending.push_back(by_.cp.all_to_all(parts(to, b), parts(from, b)));
        for (Pending& exchange : pending)
            exchange.wait();
    }

    /// [B, ranks S] of all slices.
    Tensor gathered(const Tensor& first_visible) const {
        if (first_visible.empty() || ranks_ == 1) return first_visible;
        const Tensor all =
            by_.workspace.allocate(first_visible.dtype(), {sequences_, ranks_ * length_});
        by_.cp.all_gather(all, first_visible, 1).wait();
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
    Shape shape_of_shares(const Tensor& slice) const {
        return {sequences_, length_, ranks_, share(slice.size(2)), dim_};
    }
    /// `count` heads for each rank, as [B, S, ranks, count, D].
    static Tensor part_of_all(const Tensor& message, std::int64_t at, std::int64_t count) {
        return message.slice(3, at, count).transpose(1, 2);
    }
    Tensor parts(const Tensor& x, std::int64_t b) const {
        return x.slice(0, b, 1).view({ranks_, x.elements() / (sequences_ * ranks_)});
    }

    const ContextRanks& by_;
    std::int64_t ranks_;
    std::int64_t sequences_;
    std::int64_t length_;
    std::int64_t dim_;
    DType dtype_;
    std::int64_t heads_;
    std::int64_t groups_;
};

/// q, k and v, or their gradients, side by side.
struct Parts {
    Tensor q;
    Tensor k;
    Tensor v;
};
Parts split(const Tensor& packed, std::int64_t heads, std::int64_t groups) {
    return {.q = packed.slice(2, 0, heads),
            .k = packed.slice(2, heads, groups),
            .v = packed.slice(2, heads + groups, groups)};
}
Parts split_local(const Tensor& packed, const Tensor& o) {
    return split(packed, o.size(2), div_exact(packed.size(2) - o.size(2), 2));
}

/// Attention of this rank's share of the heads over the whole sequences in args.qkv.
AttentionForward local_attention(const ContextForward& args, const HeadExchange& exchange,
                                 const Tensor& o) {
    const Parts in = split(exchange.whole_qkv(args.qkv), exchange.heads(), exchange.groups());
    Dropout dropout = args.dropout;
    dropout.head_begin += exchange.first_head();
    return {.q = in.q,
            .k = in.k,
            .v = in.v,
            .o = o,
            .lse = exchange.whole_lse(args.lse),
            .first_visible = exchange.gathered(args.first_visible),
            .dropout = dropout};
}

}  // namespace

void all_to_all_attention_forward(const ContextForward& args, const ContextRanks& by) {
    const ArenaFrame frame(by.workspace);
    const HeadExchange exchange(args, by);
    {
        const ArenaFrame packing(by.workspace);
        const Tensor message = exchange.message(exchange.packed());
        const Parts local = split_local(args.qkv, args.o);
        exchange.put(message, 0, local.q);
        exchange.put(message, exchange.heads(), local.k);
        exchange.put(message, exchange.heads() + exchange.groups(), local.v);
        exchange.run(exchange.whole_qkv(args.qkv), message);
    }
    const Tensor o = exchange.whole(exchange.heads());
    by.backend.attention_forward(local_attention(args, exchange, o));
    const Tensor message = exchange.message(exchange.heads());
    exchange.run(message, o);
    exchange.take(args.o, message, 0);
}

void all_to_all_attention_backward(const ContextBackward& args, const ContextRanks& by) {
    const ArenaFrame frame(by.workspace);
    const HeadExchange exchange(args.forward, by);
    const std::int64_t heads = exchange.heads();
    const Tensor gradients = exchange.whole(exchange.packed());
    {
        const ArenaFrame outputs(by.workspace);
        const Tensor both = exchange.whole(2 * heads);
        {
            const ArenaFrame packing(by.workspace);
            const Tensor message = exchange.message(2 * heads);
            exchange.put(message, 0, args.forward.o);
            exchange.put(message, heads, args.d_o);
            exchange.run(both, message);
        }
        const Parts out = split(gradients, heads, exchange.groups());
        by.backend.attention_backward(
            {.forward = local_attention(args.forward, exchange, both.slice(2, 0, heads)),
             .d_o = both.slice(2, heads, heads),
             .dq = out.q,
             .dk = out.k,
             .dv = out.v});
    }
    const Tensor message = exchange.message(exchange.packed());
    exchange.run(message, gradients);
    const Parts local = split_local(args.dqkv, args.forward.o);
    exchange.take(local.q, message, 0);
    exchange.take(local.k, message, heads);
    exchange.take(local.v, message, heads + exchange.groups());
}

}  // namespace gptrain
