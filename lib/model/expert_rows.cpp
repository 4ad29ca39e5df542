#include "model/expert_rows.h"

#include <memory>

#include "model/slices.h"

namespace gptrain {
namespace {

const ExpertsSpec& experts_of(const ModelContext& context) {
    return *context.shape.experts;
}

std::int64_t ranks_of(const ModelContext& context) {
    return context.mesh.experts().size();
}

/// Waits for `message`, then calls `then`.
Pending followed_by(Pending message, std::function<void()> then) {
    const auto shared = std::make_shared<Pending>(std::move(message));
    return Pending([shared, then = std::move(then)] {
        shared->wait();
        then();
    });
}

}  // namespace

ExpertRows::ExpertRows(const ModelContext& context, const SavedRouting& routing,
                       const ExpertOrder& order, const TokenRange& range)
    : context_(context), routing_(routing), order_(order) {
    const auto cut = [&](Tensor& x) { x = x.slice(0, range.begin, range.count); };
    cut(routing_.chosen);
    cut(routing_.weights);
    if (sent()) order_.sent_places = order.sent_places.slice(0, 0, range.count);
}

std::int64_t ExpertRows::count(const ModelContext& context, std::int64_t tokens) {
    const std::int64_t ranks = ranks_of(context);
    if (ranks == 1) return tokens * experts_of(context).per_token;
    return ranks * experts_of(context).message_rows(context.stream_length(tokens), ranks);
}

ExpertOrder ExpertRows::reserve(const ModelContext& context, Arena& arena, std::int64_t tokens) {
    const std::int64_t ranks = ranks_of(context);
    const std::int64_t rows = count(context, tokens);
    const std::int64_t per_token = ranks == 1 ? experts_of(context).per_token : 1;
    const Shape slots = {rows / per_token, per_token};
    const auto whole = [&](const Shape& shape) { return arena.allocate(DType::i32, shape); };
    ExpertOrder order;
    if (ranks > 1) {
        order.sent_places = whole({context.stream_length(tokens), experts_of(context).per_token});
        order.sent_slots = whole({ranks, rows / ranks});
    }
    if (ranks > 1 || context.sequence_parallel) order.weights = arena.allocate(DType::f32, slots);
    order.offsets = whole({div_exact(experts_of(context).count, ranks) + 1});
    order.slots = whole({rows});
    order.places = whole(slots);
    return order;
}

std::vector<TokenRange> ExpertRows::slices(const ModelContext& context, std::int64_t rows,
                                           const Pass& pass) {
    const std::int64_t ranks = ranks_of(context);
    if (ranks == 1) return {{.begin = 0, .count = rows}};
    const std::int64_t most = experts_of(context).most_slices(rows, ranks);
    const std::int64_t count = pass.expert_slices == 0 ? most : std::min(pass.expert_slices, most);
    std::vector<TokenRange> ranges;
    for (std::int64_t i = 0; i < count; ++i) {
        const std::int64_t begin = rows * i / count;
        ranges.push_back({.begin = begin, .count = rows * (i + 1) / count - begin});
    }
    return ranges;
}

Pending ExpertRows::exchange(const Tensor& to, const Tensor& messages, const Tensor& slots) const {
    const auto by_rank = [&](const Tensor& x) {
        const std::int64_t ranks = ranks_of(context_);
        return x.view({ranks, div_exact(x.elements(), ranks)});
    };
    Communicator& experts = context_.mesh.experts();
    if (slots.empty()) return experts.all_to_all(by_rank(to), by_rank(messages));
    return experts.all_to_all_rows(by_rank(to), by_rank(messages), by_rank(slots));
}

void ExpertRows::place(const Pass& pass) const {
    const ArenaFrame frame(context_.workspace());
    Tensor chosen;  // [R / K', K']
    if (sent()) {
        const Shape messages = order_.sent_slots.shape();
        const Tensor experts = context_.workspace().allocate(DType::i32, messages);
        chosen = context_.workspace().allocate(DType::i32, order_.places.shape());
        const Tensor weights = context_.temporary_f32(messages);
        context_.backend.run(
            PlaceRows{.chosen = routing_.chosen,
                      .weights = routing_.weights,
                      .experts_per_rank = order_.offsets.elements() - 1,
                      .places = order_.sent_places,
                      .slots = order_.sent_slots,
                      .experts = experts,
                      .weighted = weights,
                      .unplaced = pass.training ? pass.step.unplaced_rows() : Tensor()});
        Pending arriving = exchange(chosen, experts);
        exchange(order_.weights, weights).wait();
        arriving.wait();
    } else {
        chosen = gather_rows(context_, routing_.chosen);
        if (!order_.weights.empty())
            gather_slices(context_, order_.weights, routing_.weights).wait();
    }
    context_.backend.run(GroupByExpert{.chosen = chosen,
                                       .offsets = order_.offsets,
                                       .slots = order_.slots,
                                       .places = order_.places});
}

ArrivingRowsOfExperts ExpertRows::send(const Tensor& x, const Tensor& to) const {
    if (!sent()) return {.rows = gather_rows(context_, x), .pending = {}};
    const Tensor messages = context_.temporary({order_.sent_slots.elements(), x.size(1)});
    context_.backend.run(GatherRows{.x = x,
                                    .slots = order_.sent_slots,
                                    .offsets = {},
                                    .per_token = routing_.chosen.size(1),
                                    .rows = messages});
    const Tensor arrived = context_.kept_or_temporary(to, messages.shape());
    return {.rows = arrived, .pending = exchange(arrived, messages, order_.sent_slots)};
}

Tensor ExpertRows::by_expert(const Tensor& arrived, bool weighted) const {
    const Tensor rows = context_.temporary({order_.slots.elements(), arrived.size(1)});
    context_.backend.run(GatherRows{.x = arrived,
                                    .slots = order_.slots,
                                    .offsets = order_.offsets,
                                    .per_token = per_token(),
                                    .rows = rows,
                                    .weights = weighted ? weights() : Tensor()});
    return rows;
}

Pending ExpertRows::back(const Tensor& rows, const Tensor& y, bool weighted) const {
    const auto combine = [&backend = context_.backend](const Tensor& from, const Tensor& places,
                                                       const Tensor& times, const Tensor& to) {
        backend.run(CombineRows{.rows = from, .places = places, .weights = times, .y = to});
    };
    if (!sent()) {
        const Tensor part = allocate_whole(context_, y);
        combine(rows, order_.places, weighted ? weights() : Tensor(), part);
        return reduce_parts(context_, y, part);
    }
    const Tensor messages = context_.temporary(rows.shape());
    combine(rows, order_.places, {}, messages);
    const Tensor returned = context_.temporary(rows.shape());
    const Tensor times = weighted ? routing_.weights : Tensor();
    return followed_by(exchange(returned, messages, order_.places),
                       [combine, returned, places = order_.sent_places, times, y] {
                           combine(returned, places, times, y);
                       });
}

Pending ExpertRows::weigh(const Weighed& args) const {
    const Tensor& dweights = args.dweights;
    WeightRows op = {
        .a = args.a, .da = args.da, .places = order_.places, .weights = weights(), .dweights = {}};
    if (!args.bias.empty())
        op.added = {.bias = args.bias.at(0), .dy = args.dy, .offsets = order_.offsets};
    const auto weigh = [&](const Tensor& gradient) {
        op.dweights = gradient;
        context_.backend.run(op);
    };
    if (!sent()) {
        const Tensor part = allocate_whole(context_, dweights);
        weigh(part);
        return reduce_parts(context_, dweights, part);
    }
    const Tensor messages = context_.temporary_f32(order_.places.shape());
    weigh(messages);
    const Tensor returned = context_.temporary_f32(messages.shape());
    const std::int64_t slots = dweights.elements();
    const GatherRows of_slots = {.x = returned,
                                 .slots = order_.sent_places.view({slots}),
                                 .offsets = {},
                                 .per_token = 1,
                                 .rows = dweights.view({slots, 1})};
    return followed_by(exchange(returned, messages),
                       [&backend = context_.backend, of_slots] { backend.run(of_slots); });
}

}  // namespace gptrain
