// Ranks that share the sequence compute what one rank computes.
#include <algorithm>
#include <cmath>

#include "catch.h"
#include "expected.h"
#include "ops/op_case.h"
#include "ranks.h"

namespace gptrain::test {
namespace {

using Slices = std::vector<SequenceSlice>;

std::vector<ContextCase> cases(int ranks) {
    std::vector<ContextCase> result;
    for (const ContextMethod method : {ContextMethod::ring, ContextMethod::all_to_all}) {
        for (const DType dtype : {DType::f32, DType::bf16}) {
            for (const std::int64_t head_dim : {16, 64}) {
                for (const float dropout : {0.0f, 0.2f}) {
                    for (const bool documents : {false, true}) {
                        ContextCase c;
                        c.method = method;
                        c.dtype = dtype;
                        c.groups = method == ContextMethod::ring ? 2 : ranks;
                        c.heads = 2 * c.groups;
                        c.head_dim = head_dim;
                        c.dropout = dropout;
                        c.documents = documents;
                        result.push_back(c);
                    }
                }
            }
            ContextCase bidirectional = result.back();
            bidirectional.documents = false;
            bidirectional.bidirectional = true;
            result.push_back(bidirectional);
            ContextCase scores = result.back();
            scores.bidirectional = false;
            scores.documents = true;
            scores.scores = true;
            result.push_back(scores);
            // As many groups as heads, one sequence, and several tiles per slice.
            ContextCase longer;
            longer.method = method;
            longer.dtype = dtype;
            longer.sequences = 1;
            longer.seq_length = 720;
            longer.groups = method == ContextMethod::ring ? 1 : ranks;
            longer.heads = longer.groups;
            longer.documents = true;
            result.push_back(longer);
            if (method == ContextMethod::ring) continue;
            ContextCase pieces;
            pieces.method = method;
            pieces.dtype = dtype;
            pieces.sequences = 1;
            pieces.groups = 2 * ranks;
            pieces.heads = 2 * pieces.groups;
            pieces.dropout = 0.2f;
            pieces.documents = true;
            pieces.pieces = 2;
            pieces.scores = true;
            result.push_back(pieces);
            // An odd number of rows, so that the memory of a piece ends inside a row.
            pieces.scores = false;
            pieces.sequences = 3;
            pieces.seq_length = std::int64_t{15} * ranks;
            result.push_back(pieces);
        }
    }
    return result;
}

OpLimits limits_of(const ContextCase& c) {
    OpLimits limits;
    limits.compute = c.dtype;
    limits.sequences = c.sequences;
    limits.seq_length = c.seq_length;
    limits.heads = c.heads;
    limits.groups = c.groups;
    limits.head_dim = c.head_dim;
    return limits;
}

/// The step state and scratch memory that the ops of a case need.
class Surroundings {
public:
    Surroundings(Backend& backend, const ContextCase& c, const reference::Mask& mask)
        : state_(backend, to_host(state_of(mask))),
          first_sequences_(
              backend,
              HostTensor(DType::i64, {2}, given({3, static_cast<double>(mask.first_sequence)}))),
          scratch_(backend, HostTensor(DType::u8, {backend.scratch_bytes(limits_of(c))})) {
        backend.use_scratch(scratch_.tensor());
    }
    Dropout dropout(const reference::Mask& mask) const {
        Dropout dropout = mask.dropout;
        dropout.step = {state_.tensor(), first_sequences_.tensor(), 1};
        return dropout;
    }

private:
    static StepState state_of(const reference::Mask& mask) {
        StepState state = initial_step_state(1);
        state.step = mask.step;
        return state;
    }

    DeviceTensor state_;
    DeviceTensor first_sequences_;
    DeviceTensor scratch_;
};

/// Sets `to` to those rows of `whole` along dim 1.
void copy_rows(Backend& backend, const Tensor& to, const DeviceTensor& whole,
               const Slices& slices) {
    std::int64_t row = 0;
    for (const SequenceSlice& slice : slices) {
        backend.copy(to.slice(1, row, slice.length),
                     whole.tensor().slice(1, slice.begin, slice.length));
        row += slice.length;
    }
}

struct Results {
    HostTensor o, lse, dqkv, dsinks;
    bool operator==(const Results&) const = default;
};

HostTensor download(Backend& backend, const Tensor& x) {
    HostTensor host(x.dtype(), x.shape());
    backend.download(host.bytes(), x);
    return host;
}

/// Attention over this rank's rows, with exactly the memory that the meter predicts.
class SharedRun {
public:
    SharedRun(Backend& backend, Communicator& cp, const ContextCase& c, const WholeInputs& inputs)
        : backend_(backend),
          cp_(cp),
          case_(c),
          cost_(measure(c, cp.size(), cp.rank())),
          arguments_(backend, MemorySpace::device, "arguments", std::int64_t{16} << 20),
          workspace_(backend, MemorySpace::device, "workspace", cost_.memory),
          around_(backend, c, inputs.mask),
          qkv_(backend, inputs.qkv),
          d_o_(backend, inputs.d_o),
          first_visible_(backend, inputs.first_visible),
          slices_(context_slices(c.seq_length, cp.size(), cp.rank(), c.method)),
          args_(reserve(arguments_, c, cp.size())) {
        args_.forward.dropout = around_.dropout(inputs.mask);
        copy_rows(backend, args_.d_o, d_o_, slices_);
        if (c.documents) copy_rows(backend, args_.forward.first_visible, first_visible_, slices_);
        if (c.scores) backend.upload(args_.forward.sinks, inputs.sinks.bytes());
    }

    Results run() {
        const ContextRanks by = {backend_, cp_, workspace_, case_.pieces};
        // As after recomputation: forward may have overwritten it.
        copy_rows(backend_, args_.forward.qkv, qkv_, slices_);
        context_attention_forward(case_.method, args_.forward, by);
        if (case_.scores) backend_.run(Fill{.x = args_.dsinks, .value = 0});
        context_attention_backward(case_.method, args_, by);
        CHECK(workspace_.used() == 0);
        CHECK(workspace_.peak() == cost_.memory);
        return {download(backend_, args_.forward.o), download(backend_, args_.forward.lse),
                download(backend_, args_.dqkv), sum_over_ranks(args_.dsinks)};
    }

private:
    HostTensor sum_over_ranks(const Tensor& dsinks) {
        if (dsinks.empty()) return HostTensor(DType::f32, {case_.heads}, constant(0));
        cp_.all_reduce(dsinks, Reduce::sum).wait();
        return download(backend_, dsinks);
    }

    Backend& backend_;
    Communicator& cp_;
    const ContextCase& case_;
    ContextCost cost_;
    Arena arguments_;
    Arena workspace_;
    Surroundings around_;
    DeviceTensor qkv_;
    DeviceTensor d_o_;
    DeviceTensor first_visible_;
    Slices slices_;
    ContextBackward args_;
};

/// Whole sequences on one rank, by the ops themselves.
Results run_alone(Backend& backend, const ContextCase& c, const WholeInputs& inputs) {
    const Surroundings around(backend, c, inputs.mask);
    const DeviceTensor qkv(backend, inputs.qkv);
    const DeviceTensor d_o(backend, inputs.d_o);
    const DeviceTensor first_visible(backend, inputs.first_visible);
    const DeviceTensor o(backend, HostTensor(c.dtype, inputs.d_o.shape()));
    const DeviceTensor lse(backend, HostTensor(DType::f32, {c.sequences, c.heads, c.seq_length}));
    const DeviceTensor dqkv(backend, HostTensor(c.dtype, inputs.qkv.shape()));
    const auto part = [&](const DeviceTensor& packed, std::int64_t begin, std::int64_t count) {
        return packed.tensor().slice(2, begin, count);
    };
    AttentionForward forward;
    forward.q = part(qkv, 0, c.heads);
    forward.k = part(qkv, c.heads, c.groups);
    forward.v = part(qkv, c.heads + c.groups, c.groups);
    forward.o = o.tensor();
    forward.lse = lse.tensor();
    forward.q_begin = c.first_query();
    if (c.documents) forward.first_visible = first_visible.tensor();
    forward.dropout = around.dropout(inputs.mask);
    const DeviceTensor sinks(backend, inputs.sinks);
    const DeviceTensor dsinks(backend, HostTensor(DType::f32, {c.heads}, constant(0)));
    if (c.scores) {
        forward.softcap = 2;
        forward.alibi = {.heads = c.heads};
    }
    backend.run(forward);
    if (c.scores) backend.run(SinkForward{sinks.tensor(), o.tensor(), lse.tensor()});
    backend.run(AttentionBackward{.forward = forward,
                                  .d_o = d_o.tensor(),
                                  .dq = part(dqkv, 0, c.heads),
                                  .dk = part(dqkv, c.heads, c.groups),
                                  .dv = part(dqkv, c.heads + c.groups, c.groups)});
    if (c.scores) {
        backend.run(
            SinkBackward{sinks.tensor(), o.tensor(), lse.tensor(), d_o.tensor(), dsinks.tensor()});
    }
    return {o.download(), lse.download(), dqkv.download(), dsinks.download()};
}

/// The number of elements that are farther from the reference than rounding explains.
std::int64_t faults(const HostTensor& results, const gptrain::Array& right) {
    REQUIRE(results.shape().elements() == right.shape().elements());
    std::int64_t count = 0;
    for (std::int64_t i = 0; i < right.shape().elements(); ++i) {
        const Bounded& x = right.values()[static_cast<std::size_t>(i)];
        if (!(std::abs(results[i] - x.value) <= x.bound)) ++count;
    }
    return count;
}

/// One rank's part: its share of the heads for whole sequences, piece by piece, or all heads of its
/// slices.
gptrain::Array lse_of_rank(const gptrain::Array& whole, const ContextCase& c, int ranks, int rank) {
    if (c.method == ContextMethod::ring)
        return part_of(whole, 2, context_slices(c.seq_length, ranks, rank, c.method));
    const std::int64_t heads = c.heads / ranks / c.pieces;
    gptrain::Array share(Shape{whole.shape().elements() / ranks}, whole.dtype());
    auto next = share.values().begin();
    for (std::int64_t i = 0; i < c.pieces; ++i) {
        const gptrain::Array piece = part_of(whole, 1, {{(rank * c.pieces + i) * heads, heads}});
        next = std::copy(piece.values().begin(), piece.values().end(), next);
    }
    return share;
}

gptrain::Array to_rows(const HostTensor& whole, const Slices& slices) {
    return part_of(to_array(whole.tensor()), 1, slices);
}

/// Root of the sum of squared differences.
double distance(const gptrain::Array& a, const gptrain::Array& b) {
    double squares = 0;
    for (std::size_t i = 0; i < b.values().size(); ++i)
        squares += std::pow(a.values()[i].value - b.values()[i].value, 2);
    return std::sqrt(squares);
}
double distance(const HostTensor& results, const gptrain::Array& right) {
    return distance(to_array(results.tensor()), right);
}

}  // namespace

TEST_CASE("Ranks that share the sequence attend as one rank does") {
    const auto backend = make_backend();
    const auto cp = ways().at(0).connect(*backend);
    const int ranks = cp->size();
    for (const ContextCase& c : cases(ranks)) {
        INFO(text_of(c));
        const WholeInputs inputs(c);
        const Expected whole = expected(c, inputs, ranks);
        const Slices slices = context_slices(c.seq_length, ranks, cp->rank(), c.method);
        const gptrain::Array o = part_of(whole.o, 1, slices);
        const gptrain::Array dqkv = part_of(whole.dqkv, 1, slices);

        SharedRun run(*backend, *cp, c, inputs);
        const Results results = run.run();
        CHECK(faults(results.o, o) == 0);
        CHECK(faults(results.lse, lse_of_rank(whole.lse, c, ranks, cp->rank())) == 0);
        CHECK(faults(results.dqkv, dqkv) == 0);
        CHECK(faults(results.dsinks, whole.dsinks) == 0);
        CHECK(run.run() == results);

        const Results alone = run_alone(*backend, c, inputs);
        CHECK(faults(alone.o, whole.o) == 0);
        CHECK(faults(alone.lse, whole.lse) == 0);
        CHECK(faults(alone.dqkv, whole.dqkv) == 0);
        CHECK(faults(alone.dsinks, whole.dsinks) == 0);
        if (c.dtype == DType::f32) continue;
        CHECK(distance(results.o, o) <= 2 * distance(to_rows(alone.o, slices), o));
        CHECK(distance(results.dqkv, dqkv) <= 2 * distance(to_rows(alone.dqkv, slices), dqkv));
    }
}

}  // namespace gptrain::test
