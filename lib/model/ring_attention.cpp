#include <algorithm>
#include <array>
#include <vector>

#include "base/checked.h"
#include "model/context_attention.h"

namespace gptrain {
namespace {

/// A rank's place in the ring, and its slices of the sequence. Keys and values go to the next rank.
struct Ring {
    explicit Ring(const ContextForward& args, const Communicator& cp)
        : rank(cp.rank()),
          size(cp.size()),
          next((rank + 1) % size),
          before((rank + size - 1) % size),
          seq_length(args.o.size(1) * size) {}

    /// The slices whose keys and values this rank holds after `step` exchanges.
    std::vector<SequenceSlice> slices_at(int step) const {
        return context_slices(seq_length, size, (rank + size - step) % size, ContextMethod::ring);
    }

    int rank;
    int size;
    int next;
    int before;
    std::int64_t seq_length;
};

/// A contiguous copy if x is strided, as a slice of several sequences is.
Tensor compact(const Tensor& x, const ContextRanks& by) {
    if (x.empty() || x.contiguous()) return x;
    const Tensor copy = by.workspace.allocate(x.dtype(), x.shape());
    by.backend.copy(copy, x);
    return copy;
}

/// One of this rank's slices, as queries.
struct Queries {
    SequenceSlice slice;
    std::int64_t row = 0;        ///< its first row in this rank's tensors
    AttentionForward attention;  ///< keys are set later

    /// The slice's rows of x.
    Tensor of(const Tensor& x, int dim) const { return x.slice(dim, row, slice.length); }
};

std::vector<Queries> queries_of(const ContextForward& args, const Ring& ring,
                                const ContextRanks& by) {
    std::vector<Queries> result;
    std::int64_t row = 0;
    for (const SequenceSlice& slice : ring.slices_at(0)) {
        Queries queries = {slice, row, {}};
        queries.attention.q = queries.of(args.qkv, 1).slice(2, 0, args.o.size(2));
        queries.attention.q_begin = slice.begin;
        queries.attention.dropout = args.dropout;
        if (!args.first_visible.empty())
            queries.attention.first_visible = compact(queries.of(args.first_visible, 1), by);
        result.push_back(queries);
        row += slice.length;
    }
    return result;
}

/// Calls f(queries, key_row, key_slice) for each pair of slices that the causal mask does not hide
/// completely. The key slices are stored one after the other, from row 0 on.
template <class F>
void for_each_pair(const std::vector<Queries>& all, const std::vector<SequenceSlice>& key_slices,
                   const F& f) {
    for (const Queries& queries : all) {
        std::int64_t row = 0;
        for (const SequenceSlice& keys : key_slices) {
            if (keys.begin < queries.slice.begin + queries.slice.length) f(queries, row, keys);
            row += keys.length;
        }
    }
}

/// Views of packed k and v, or of their gradients.
struct KeyParts {
    explicit KeyParts(const Tensor& packed)
        : k(packed.slice(2, 0, packed.size(2) / 2)),
          v(packed.slice(2, packed.size(2) / 2, packed.size(2) / 2)) {}
    Tensor k;
    Tensor v;
};

/// The queries' attention to one slice of `keys` [B, S, 2 G, D], stored from `row` on.
AttentionForward attention_to(const Queries& queries, const Tensor& keys, std::int64_t row,
                              const SequenceSlice& slice) {
    const KeyParts parts(keys.slice(1, row, slice.length));
    AttentionForward attention = queries.attention;
    attention.k = parts.k;
    attention.v = parts.v;
    attention.k_begin = slice.begin;
    return attention;
}

/// The keys and values in qkv, or in its gradient.
Tensor keys_of(const Tensor& qkv, const Tensor& o) {
    return qkv.slice(2, o.size(2), qkv.size(2) - o.size(2));
}

/// Keys and values going around the ring, [B, S, 2 G, D]: two buffers, one in use and one arriving.
class KeyRing {
public:
    KeyRing(const ContextForward& args, const Ring& ring, const ContextRanks& by)
        : ring_(ring), by_(by) {
        const Tensor own = keys_of(args.qkv, args.o);
        for (Tensor& keys : keys_)
            keys = by.workspace.allocate(own.dtype(), own.shape());
        by.backend.copy(keys_[0], own);
    }

    const Tensor& at(int step) const { return keys_[static_cast<std::size_t>(step % 2)]; }
    /// Starts the exchange that brings the next step's keys and values.
    Pending pass_on(int step) const {
        if (step + 1 == ring_.size) return {};
        return by_.cp.send_recv(at(step), ring_.next, at(step + 1), ring_.before);
    }

private:
    const Ring& ring_;
    const ContextRanks& by_;
    std::array<Tensor, 2> keys_;
};

/// The sums of dk and dv going around the ring, fp32 [B, S, 2 G, D]. The sum for a rank's keys
/// starts at the next rank and comes home from the previous one; the rank's own contribution waits
/// at home. While a sum arrives, this rank computes its contribution in a separate buffer.
class GradientRing {
public:
    GradientRing(const Shape& shape, const Ring& ring, const ContextRanks& by)
        : ring_(ring), by_(by), home_(by.workspace.allocate(DType::f32, shape)) {
        for (int i = 0; i < std::min(ring.size, most_under_way); ++i)
            under_way_.push_back(by.workspace.allocate(DType::f32, shape));
    }

    /// The buffer that this rank adds to in this step.
    const Tensor& at(int step) const {
        return step == 0 ? home_ : under_way_[static_cast<std::size_t>(step) % under_way_.size()];
    }
    /// Starts the exchange of the previous step's sums for those of this step. There are none
    /// before step 2.
    Pending pass_on(int step) const {
        if (step < 2) return {};
        return by_.cp.send_recv(at(step - 1), ring_.next, at(step + 1), ring_.before);
    }
    /// Adds the sums that arrived to this rank's contribution.
    void add_arrived(int step) const {
        if (step >= 2) add(at(step), at(step + 1));
    }
    /// The complete sums for this rank's keys.
    const Tensor& bring_home() const {
        if (ring_.size > 1) {
            by_.cp.send_recv(at(ring_.size - 1), ring_.next, at(ring_.size), ring_.before).wait();
            add(home_, at(ring_.size));
        }
        return home_;
    }

private:
    /// One being sent, one arriving, one being computed.
    static constexpr int most_under_way = 3;

    /// x += y
    void add(const Tensor& x, const Tensor& y) const {
        const Shape rows = {x.size(0) * x.size(1), x.size(2) * x.size(3)};
        by_.backend.residual_norm_forward({.r = x.view(rows),
                                           .y = y.view(rows),
                                           .dropout = {},
                                           .r_out = x.view(rows),
                                           .norm = {},
                                           .n = {},
                                           .mean = {},
                                           .rstd = {},
                                           .seq_length = x.size(1)});
    }

    const Ring& ring_;
    const ContextRanks& by_;
    Tensor home_;
    std::vector<Tensor> under_way_;
};

/// to = sum, rounded to to's dtype.
void store_rounded(const Tensor& to, const Tensor& sum, const ContextRanks& by) {
    const ArenaFrame frame(by.workspace);
    const bool direct = to.contiguous();
    const Tensor rounded = direct ? to : by.workspace.allocate(to.dtype(), to.shape());
    by.backend.cast(rounded, sum);
    if (!direct) by.backend.copy(to, rounded);
}

}  // namespace

void ring_attention_forward(const ContextForward& args, const ContextRanks& by) {
    const ArenaFrame frame(by.workspace);
    const Ring ring(args, by.cp);
    const KeyRing keys(args, ring, by);
    const std::vector<Queries> all = queries_of(args, ring, by);
    const Tensor o_sum = by.workspace.allocate(DType::f32, args.o.shape());
    const Shape q_shape = all[0].attention.q.shape();
    const Tensor o = by.workspace.allocate(args.o.dtype(), q_shape);
    const Tensor lse = by.workspace.allocate(DType::f32, {q_shape[0], q_shape[2], q_shape[1]});
    for (int step = 0; step < ring.size; ++step) {
        Pending next = keys.pass_on(step);
        for_each_pair(all, ring.slices_at(step),
                      [&](const Queries& queries, std::int64_t row, const SequenceSlice& slice) {
                          AttentionForward attention =
                              attention_to(queries, keys.at(step), row, slice);
                          attention.o = o;
                          attention.lse = lse;
                          by.backend.attention_forward(attention);
                          // Every query sees the first rows of this rank's own keys, so that pair
                          // starts the sums.
                          by.backend.merge_attention({.o = o,
                                                      .lse = lse,
                                                      .o_sum = queries.of(o_sum, 1),
                                                      .lse_sum = queries.of(args.lse, 2),
                                                      .accumulate = step > 0 || row > 0});
                      });
        next.wait();
    }
    store_rounded(args.o, o_sum, by);
}

void ring_attention_backward(const ContextBackward& args, const ContextRanks& by) {
    const ArenaFrame frame(by.workspace);
    const ContextForward& forward = args.forward;
    const Ring ring(forward, by.cp);
    const KeyRing keys(forward, ring, by);
    const GradientRing sums(keys.at(0).shape(), ring, by);
    const Tensor dq_sum = by.workspace.allocate(DType::f32, forward.o.shape());
    by.backend.fill(dq_sum, 0);
    std::vector<Queries> all = queries_of(forward, ring, by);
    for (Queries& queries : all) {
        queries.attention.o = queries.of(forward.o, 1);
        queries.attention.lse = compact(queries.of(forward.lse, 2), by);
    }
    for (int step = 0; step < ring.size; ++step) {
        Pending next = keys.pass_on(step);
        Pending arriving = sums.pass_on(step);
        by.backend.fill(sums.at(step), 0);
        for_each_pair(all, ring.slices_at(step),
                      [&](const Queries& queries, std::int64_t row, const SequenceSlice& slice) {
                          const KeyParts added(sums.at(step).slice(1, row, slice.length));
                          by.backend.attention_backward(
                              {.forward = attention_to(queries, keys.at(step), row, slice),
                               .d_o = queries.of(args.d_o, 1),
                               .dq = queries.of(dq_sum, 1),
                               .dk = added.k,
                               .dv = added.v,
                               .accumulate = true});
                      });
        next.wait();
        arriving.wait();
        sums.add_arrived(step);
    }
    store_rounded(args.dqkv.slice(2, 0, forward.o.size(2)), dq_sum, by);
    store_rounded(keys_of(args.dqkv, forward.o), sums.bring_home(), by);
}

}  // namespace gptrain
