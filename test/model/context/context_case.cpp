#include "context_case.h"

#include "base/text.h"
#include "comm/comm_totals.h"
#include "meter/meter_communicator.h"

namespace gptrain::test {

std::string text_of(const ContextCase& c) {
    return text(name_of(c.method), " ", name_of(c.dtype), " B", c.sequences, " S", c.seq_length,
                " N", c.heads, " G", c.groups, " D", c.head_dim, " dropout ", c.dropout,
                c.documents ? " documents" : "", c.bidirectional ? " bidirectional" : "",
                c.pieces > 1 ? " pieces" : "", c.scores ? " scores" : "");
}

ContextBackward reserve(Arena& arena, const ContextCase& c, std::int64_t ranks) {
    const std::int64_t length = div_exact(c.seq_length, ranks);
    const Shape packed = {c.sequences, length, c.heads + 2 * c.groups, c.head_dim};
    const Shape heads = {c.sequences, length, c.heads, c.head_dim};
    ContextBackward args;
    args.forward.qkv = arena.allocate(c.dtype, packed);
    args.forward.o = arena.allocate(c.dtype, heads);
    args.forward.lse = arena.allocate(DType::f32, {c.sequences, c.heads, length});
    args.forward.first_query = c.first_query();
    if (c.documents) args.forward.first_visible = arena.allocate(DType::i32, {c.sequences, length});
    if (c.scores) {
        args.forward.softcap = 2;
        args.forward.alibi = {.heads = c.heads};
        args.forward.sinks = arena.allocate(c.dtype, {c.heads});
        args.dsinks = arena.allocate(DType::f32, {c.heads});
    }
    args.d_o = arena.allocate(c.dtype, heads);
    args.dqkv = arena.allocate(c.dtype, packed);
    return args;
}

ContextCost measure(const ContextCase& c, int ranks, int rank) {
    constexpr std::int64_t plenty = std::int64_t{1} << 40;
    MeterBackend backend({.scratch = [](const OpLimits&) { return std::int64_t{0}; }});
    CommTotals totals;
    const CommunicatorFactory make = observed(
        [](const RankGroup& group) {
            return std::make_unique<MeterCommunicator>(group.rank, group.size);
        },
        totals);
    const auto cp = make({.axis = Axis::cp, .rank = rank, .size = ranks});
    Arena arguments(backend, MemorySpace::device, "arguments", plenty);
    Arena workspace(backend, MemorySpace::device, "workspace", plenty);
    const ContextRanks by = {backend, *cp, workspace, c.pieces};
    const ContextBackward args = reserve(arguments, c, ranks);
    ContextCost cost;
    context_attention_forward(c.method, args.forward, by);
    cost.sent_forward = totals[Axis::cp].bytes;
    context_attention_backward(c.method, args, by);
    cost.sent_backward = totals[Axis::cp].bytes - cost.sent_forward;
    cost.memory = workspace.peak();
    cost.work = backend.work().attention;
    return cost;
}

}  // namespace gptrain::test
