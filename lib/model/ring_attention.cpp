#include <algorithm>
#include <array>
#include <span>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "model/context_attention.h"
#include "model/packed_qkv.h"

namespace gptrain {
namespace {

/// A rank's place in the ring, and its slices of the sequence. Keys and values go to the next rank.
struct Ring {
    explicit Ring(const ContextForward& args, const Communicator& cp)
        : rank(cp.rank()),
          size(cp.size()),
          next((rank + 1) % size),
          previous((rank + size - 1) % size),
          seq_length(args.o.size(1) * size) {}

    /// The slices whose keys and values this rank holds after `step` exchanges.
    std::vector<SequenceSlice> slices_at(int step) const {
        return context_slices(seq_length, size, (rank + size - step) % size, ContextMethod::ring);
    }

    int rank;
    int size;
    int next;
    int previous;
    std::int64_t seq_length;
};

/// A contiguous copy if x is strided, as a slice of several sequences is.
Tensor contiguous_copy(const Tensor& x, const ContextRanks& resources) {
    if (x.empty() || x.contiguous()) return x;
    const Tensor copy = resources.workspace.allocate(x.dtype(), x.shape());
    resources.backend.copy(copy, x);
    return copy;
}

/// One of this rank's slices, as queries.
struct Queries {
    SequenceSlice slice;
    std::int64_t row = 0;        ///< its first row in this rank's tensors
    AttentionForward attention;  ///< keys are set later
    bool started = false;        ///< its sums hold the attention to some keys

    /// The slice's rows of x.
    Tensor of(const Tensor& x, int dim) const { return x.slice(dim, row, slice.length); }
};

std::vector<Queries> queries_of(const ContextForward& args, const Ring& ring,
                                const ContextRanks& resources) {
    std::vector<Queries> result;
    std::int64_t row = 0;
    for (const SequenceSlice& slice : ring.slices_at(0)) {
        Queries queries = {.slice = slice, .row = row, .attention = {}};
        queries.attention.q = queries.of(args.qkv, 1).slice(2, 0, args.o.size(2));
        queries.attention.q_begin = args.first_query + slice.begin;
        queries.attention.window = args.window;
        queries.attention.dropout = args.dropout;
        queries.attention.softcap = args.softcap;
        queries.attention.alibi = args.alibi;
        if (!args.first_visible.empty())
            queries.attention.first_visible =
                contiguous_copy(queries.of(args.first_visible, 1), resources);
        result.push_back(queries);
        row += slice.length;
    }
    return result;
}

/// False if the causal mask or the window hides all keys from all queries.
bool sees_any(const Queries& queries, const SequenceSlice& keys) {
    const std::int64_t window = queries.attention.window;
    const std::int64_t begin = queries.attention.q_begin;
    const std::int64_t first = window == 0 ? 0 : begin + 1 - window;
    return keys.begin < begin + queries.slice.length && keys.begin + keys.length > first;
}

/// Calls f(queries, key_row, key_slice) for each pair of slices that is not hidden. The key slices
/// are stored one after the other, from row 0 on.
void for_each_pair(std::span<Queries> all, const std::vector<SequenceSlice>& key_slices,
                   const auto& f) {
    for (Queries& queries : all) {
        std::int64_t row = 0;
        for (const SequenceSlice& keys : key_slices) {
            if (sees_any(queries, keys)) f(queries, row, keys);
            row += keys.length;
        }
    }
}

/// The queries' attention to one slice of `keys` [B, S, 2 G, D], stored from `row` on.
AttentionForward attention_to(const Queries& queries, const Tensor& keys, std::int64_t row,
                              const SequenceSlice& slice) {
    const PackedKv parts = split_kv(keys.slice(1, row, slice.length));
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
    KeyRing(const ContextForward& args, const Ring& ring, const ContextRanks& resources)
        : ring_(ring), resources_(resources) {
        const Tensor own = keys_of(args.qkv, args.o);
        for (Tensor& keys : keys_)
            keys = resources.workspace.allocate(own.dtype(), own.shape());
        resources.backend.copy(keys_[0], own);
    }

    const Tensor& at(int step) const { return keys_[static_cast<std::size_t>(step % 2)]; }
    /// Starts the exchange that brings the next step's keys and values.
    Pending pass_on(int step) const {
        if (step + 1 == ring_.size) return {};
        return resources_.cp.send_recv(at(step), ring_.next, at(step + 1), ring_.previous);
    }

private:
    const Ring& ring_;
    const ContextRanks& resources_;
    std::array<Tensor, 2> keys_;
};

/// The sums of dk and dv going around the ring, fp32 [B, S, 2 G, D]. The sum for a rank's keys
/// starts at the next rank and comes home from the previous one; the rank's own contribution waits
/// at home. While a sum arrives, this rank computes its contribution in a separate buffer.
class GradientRing {
public:
    GradientRing(const Shape& shape, const Ring& ring, const ContextRanks& resources)
        : ring_(ring),
          resources_(resources),
          home_(resources.workspace.allocate(DType::f32, shape)) {
        for (int i = 0; i < std::min(ring.size, max_in_flight); ++i)
            in_flight_.push_back(resources.workspace.allocate(DType::f32, shape));
    }

    /// The buffer that this rank adds to in this step.
    const Tensor& at(int step) const {
        return step == 0 ? home_ : in_flight_[static_cast<std::size_t>(step) % in_flight_.size()];
    }
    /// Starts the exchange of the previous step's sums for those of this step. There are none
    /// before step 2.
    Pending pass_on(int step) const {
        if (step < 2) return {};
        return resources_.cp.send_recv(at(step - 1), ring_.next, at(step + 1), ring_.previous);
    }
    /// Adds the sums that arrived to this rank's contribution.
    void add_arrived(int step) const {
        if (step >= 2) resources_.backend.run(Add{.x = at(step), .y = at(step + 1)});
    }
    /// Starts the exchange that brings the sums for this rank's keys home, after the last step.
    Pending pass_home() const {
        if (ring_.size == 1) return {};
        return resources_.cp.send_recv(at(ring_.size - 1), ring_.next, at(ring_.size),
                                       ring_.previous);
    }
    /// The complete sums for this rank's keys, once they are home.
    const Tensor& finish() const {
        if (ring_.size > 1) resources_.backend.run(Add{.x = home_, .y = at(ring_.size)});
        return home_;
    }

private:
    /// One being sent, one arriving, one being computed.
    static constexpr int max_in_flight = 3;

    const Ring& ring_;
    const ContextRanks& resources_;
    Tensor home_;
    std::vector<Tensor> in_flight_;
};

/// to = sum, rounded to to's dtype.
void store_rounded(const Tensor& to, const Tensor& sum, const ContextRanks& resources) {
    const ArenaFrame frame(resources.workspace);
    const bool direct = to.contiguous();
    const Tensor rounded = direct ? to : resources.workspace.allocate(to.dtype(), to.shape());
    resources.backend.run(Cast{.to = rounded, .from = sum});
    if (!direct) resources.backend.copy(to, rounded);
}

}  // namespace

void ring_attention_forward(const ContextForward& args, const ContextRanks& resources) {
    const ArenaFrame frame(resources.workspace);
    const Ring ring(args, resources.cp);
    const KeyRing keys(args, ring, resources);
    std::vector<Queries> all = queries_of(args, ring, resources);
    const Tensor o_sum = resources.workspace.allocate(DType::f32, args.o.shape());
    const Shape q_shape = all[0].attention.q.shape();
    const Tensor o = resources.workspace.allocate(args.o.dtype(), q_shape);
    const Tensor lse =
        resources.workspace.allocate(DType::f32, {q_shape[0], q_shape[2], q_shape[1]});
    for (int step = 0; step < ring.size; ++step) {
        Pending next = keys.pass_on(step);
        for_each_pair(all, ring.slices_at(step),
                      [&](Queries& queries, std::int64_t row, const SequenceSlice& slice) {
                          AttentionForward attention =
                              attention_to(queries, keys.at(step), row, slice);
                          attention.o = o;
                          attention.lse = lse;
                          resources.backend.run(attention);
                          resources.backend.run(
                              MergeAttention{.o = o,
                                             .lse = lse,
                                             .o_sum = queries.of(o_sum, 1),
                                             .lse_sum = queries.of(args.lse, 2),
                                             .accumulate = std::exchange(queries.started, true)});
                      });
        next.wait();
    }
    if (!args.sinks.empty())
        resources.backend.run(SinkForward{.sinks = args.sinks, .o = o_sum, .lse = args.lse});
    store_rounded(args.o, o_sum, resources);
}

void ring_attention_backward(const ContextBackward& args, const ContextRanks& resources) {
    const ArenaFrame frame(resources.workspace);
    const ContextForward& forward = args.forward;
    const Ring ring(forward, resources.cp);
    const KeyRing keys(forward, ring, resources);
    const GradientRing sums(keys.at(0).shape(), ring, resources);
    const Tensor dq_sum = resources.workspace.allocate(DType::f32, forward.o.shape());
    resources.backend.run(Fill{.x = dq_sum, .value = 0});
    std::vector<Queries> all = queries_of(forward, ring, resources);
    for (Queries& queries : all) {
        queries.attention.o = queries.of(forward.o, 1);
        queries.attention.lse = contiguous_copy(queries.of(forward.lse, 2), resources);
    }
    const auto add = [&](std::span<Queries> some, const Tensor& packed, int step) {
        for_each_pair(some, ring.slices_at(step),
                      [&](const Queries& queries, std::int64_t row, const SequenceSlice& slice) {
                          const PackedKv added =
                              split_kv(sums.at(step).slice(1, row, slice.length));
                          resources.backend.run(AttentionBackward{
                              .forward = attention_to(queries, packed, row, slice),
                              .d_o = queries.of(args.d_o, 1),
                              .dq = queries.of(dq_sum, 1),
                              .dk = added.k,
                              .dv = added.v,
                              .accumulate = true});
                      });
    };
    // This rank's own keys take part first and last: with the early queries while the first keys
    // arrive, and with the late ones, which in a causal model see three times as many, while the
    // last sums come home.
    const std::span<Queries> early = std::span(all).first(1);
    const std::span<Queries> late = std::span(all).subspan(1);
    for (int step = 0; step < ring.size; ++step) {
        Pending next = keys.pass_on(step);
        Pending arriving = sums.pass_on(step);
        resources.backend.run(Fill{.x = sums.at(step), .value = 0});
        add(step == 0 ? early : std::span(all), keys.at(step), step);
        next.wait();
        arriving.wait();
        sums.add_arrived(step);
    }
    if (!args.dsinks.empty()) {
        resources.backend.run(SinkBackward{.sinks = forward.sinks,
                                           .o = forward.o,
                                           .lse = forward.lse,
                                           .d_o = args.d_o,
                                           .dsinks = args.dsinks});
    }
    Pending last = sums.pass_home();
    add(late, keys_of(forward.qkv, forward.o), 0);
    store_rounded(args.dqkv.slice(2, 0, forward.o.size(2)), dq_sum, resources);
    last.wait();
    store_rounded(keys_of(args.dqkv, forward.o), sums.finish(), resources);
}

}  // namespace gptrain
