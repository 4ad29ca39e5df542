#include <vector>

#include "base/checked.h"
#include "model/context_attention.h"

namespace gptrain {
namespace {

/// Exchanges slices of the sequence for shares of the heads, and back. A message [B, ranks, S,
/// heads, D] holds, for each rank, its share of the heads over this rank's slice. A "whole" tensor
/// [B, ranks S, heads, D] holds this rank's share of the heads over whole sequences.
class HeadExchange {
public:
    HeadExchange(const ContextForward& args, const ContextRanks& resources)
        : resources_(resources),
          ranks_(resources.cp.size()),
          sequences_(args.o.size(0)),
          length_(args.o.size(1)),
          dim_(args.o.size(3)),
          dtype_(args.o.dtype()),
          heads_(share(args.o.size(2))),
          groups_(share(div_exact(args.qkv.size(2) - args.o.size(2), 2))) {}

    /// Counts in this rank's share.
    std::int64_t heads() const { return heads_; }
    std::int64_t groups() const { return groups_; }
    std::int64_t packed() const { return heads_ + 2 * groups_; }
    std::int64_t first_head() const { return resources_.cp.rank() * heads_; }

    /// Memory for `count` heads over whole sequences.
    Tensor whole(std::int64_t count) const {
        return resources_.workspace.allocate(dtype_, whole_shape(count));
    }
    Tensor message(std::int64_t count) const {
        return resources_.workspace.allocate(dtype_, {sequences_, ranks_, length_, count, dim_});
    }
    /// Views the memory of all heads over one slice as one share of the heads over whole sequences.
    Tensor whole_qkv(const Tensor& qkv) const {
        return qkv.reinterpret(dtype_, whole_shape(packed()));
    }
    Tensor whole_lse(const Tensor& lse) const {
        return lse.reinterpret(DType::f32, {sequences_, heads_, ranks_ * length_});
    }

    /// Copies all heads of this rank's slice into the message, from head `at` of each share on.
    /// `unpack` copies them back.
    void pack(const Tensor& message, std::int64_t at, const Tensor& slice) const {
        const Shape shares = shape_of_shares(slice);
        resources_.backend.copy(part_of_all(message, at, shares[3]), slice.view(shares));
    }
    void unpack(const Tensor& slice, const Tensor& message, std::int64_t at) const {
        const Shape shares = shape_of_shares(slice);
        resources_.backend.copy(slice.view(shares), part_of_all(message, at, shares[3]));
    }

    /// Exchanges `from` for `to` among the ranks. One of them is a message, the other is whole.
    void run(const Tensor& to, const Tensor& from) const {
        // Within one sequence the parts are contiguous on both sides.
        std::vector<Pending> pending;
        for (std::int64_t b = 0; b < sequences_; ++b)
            pending.push_back(resources_.cp.all_to_all(parts(to, b), parts(from, b)));
        for (Pending& exchange : pending)
            exchange.wait();
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
    Shape shape_of_shares(const Tensor& slice) const {
        return {sequences_, length_, ranks_, share(slice.size(2)), dim_};
    }
    /// The `count` heads of each rank, as [B, S, ranks, count, D].
    static Tensor part_of_all(const Tensor& message, std::int64_t at, std::int64_t count) {
        return message.slice(3, at, count).transpose(1, 2);
    }
    Tensor parts(const Tensor& x, std::int64_t b) const {
        return x.slice(0, b, 1).view({ranks_, x.elements() / (sequences_ * ranks_)});
    }

    const ContextRanks& resources_;
    std::int64_t ranks_;
    std::int64_t sequences_;
    std::int64_t length_;
    std::int64_t dim_;
    DType dtype_;
    std::int64_t heads_;
    std::int64_t groups_;
};

/// Views of packed q, k and v, or of their gradients.
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

/// Attention over the whole sequences in args.qkv, for this rank's share of the heads.
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
            .window = args.window,
            .dropout = dropout};
}

}  // namespace

void all_to_all_attention_forward(const ContextForward& args, const ContextRanks& resources) {
    const ArenaFrame frame(resources.workspace);
    const HeadExchange exchange(args, resources);
    {
        const ArenaFrame packing(resources.workspace);
        const Tensor message = exchange.message(exchange.packed());
        const Parts local = split_local(args.qkv, args.o);
        exchange.pack(message, 0, local.q);
        exchange.pack(message, exchange.heads(), local.k);
        exchange.pack(message, exchange.heads() + exchange.groups(), local.v);
        exchange.run(exchange.whole_qkv(args.qkv), message);
    }
    const Tensor o = exchange.whole(exchange.heads());
    resources.backend.run(local_attention(args, exchange, o));
    const Tensor message = exchange.message(exchange.heads());
    exchange.run(message, o);
    exchange.unpack(args.o, message, 0);
}

void all_to_all_attention_backward(const ContextBackward& args, const ContextRanks& resources) {
    const ArenaFrame frame(resources.workspace);
    const HeadExchange exchange(args.forward, resources);
    const std::int64_t heads = exchange.heads();
    const Tensor gradients = exchange.whole(exchange.packed());
    {
        const ArenaFrame outputs(resources.workspace);
        const Tensor both = exchange.whole(2 * heads);
        {
            const ArenaFrame packing(resources.workspace);
            const Tensor message = exchange.message(2 * heads);
            exchange.pack(message, 0, args.forward.o);
            exchange.pack(message, heads, args.d_o);
            exchange.run(both, message);
        }
        const Parts out = split(gradients, heads, exchange.groups());
        resources.backend.run(AttentionBackward{
            .forward = local_attention(args.forward, exchange, both.slice(2, 0, heads)),
            .d_o = both.slice(2, heads, heads),
            .dq = out.q,
            .dk = out.k,
            .dv = out.v});
    }
    const Tensor message = exchange.message(exchange.packed());
    exchange.run(message, gradients);
    const Parts local = split_local(args.dqkv, args.forward.o);
    exchange.unpack(local.q, message, 0);
    exchange.unpack(local.k, message, heads);
    exchange.unpack(local.v, message, heads + exchange.groups());
}

}  // namespace gptrain
