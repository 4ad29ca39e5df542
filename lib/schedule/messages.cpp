#include "schedule/messages.h"

#include <algorithm>
#include <set>

#include "base/error.h"

namespace gptrain {
namespace {

using enum ActionKind;

/// The chunk `hops` chunks further along the model, if any.
std::optional<ChunkPlace> neighbour(const PipelineShape& shape, const ChunkPlace& place,
                                    std::int64_t hops) {
    const std::int64_t model_chunk = model_chunk_at(shape, place) + hops;
    if (model_chunk < 0 || model_chunk >= shape.model_chunks()) return {};
    return place_at(shape, model_chunk);
}

/// The direction in which an action moves through the model; 0 if it stays.
std::int64_t direction(ActionKind kind) {
    switch (kind) {
        case forward: return 1;
        case backward:
        case backward_inputs: return -1;
        default: return 0;
    }
}

std::optional<ChunkPlace> neighbour_of_action(const PipelineShape& shape, std::int64_t stage,
                                              const Action& action, std::int64_t hops) {
    const std::int64_t move = direction(action.kind) * hops;
    return move == 0 ? std::nullopt : neighbour(shape, {stage, action.chunk}, move);
}

/// A receive, and the index of the compute action before which it is posted.
struct PostedReceive {
    std::size_t before;
    Action receive;
};

/// Which actions of a stage read what it receives.
struct Readers {
    std::vector<std::size_t> at;     ///< index of the reading action, by arrival_index
    std::set<std::int64_t> senders;  ///< other stages that send to this one
};

Readers find_readers(const PipelineShape& shape, std::int64_t stage,
                     const std::vector<Action>& order) {
    Readers readers = {std::vector<std::size_t>(arrivals(shape)), {}};
    for (std::size_t i = 0; i < order.size(); ++i) {
        const auto source = producer_of(shape, stage, order[i]);
        if (!source) continue;
        readers.at[arrival_index(shape, order[i], order[i].chunk)] = i;
        if (source->stage != stage) readers.senders.insert(source->stage);
    }
    return readers;
}

/// The index of the compute action before which the receive that action `use` reads is posted: the
/// action before `use`, so that the message arrives during that action, unless the message depends
/// on that action, which passes the same microbatch on.
std::size_t post_before(const std::vector<Action>& order, std::size_t use) {
    if (use == 0) return 0;
    const Action& previous = order[use - 1];
    const bool depends =
        direction(previous.kind) != 0 && previous.microbatch == order[use].microbatch;
    return depends ? use : use - 1;
}

/// The receives from one stage, in the order of its sends.
std::vector<PostedReceive> posts_from(std::int64_t sender, const PipelineShape& shape,
                                      std::int64_t stage, const Readers& readers,
                                      const std::vector<Action>& order,
                                      const std::vector<Action>& sender_order) {
    std::vector<PostedReceive> posts;
    for (const Action& action : sender_order) {
        const auto target = consumer_of(shape, sender, action);
        if (!target || target->stage != stage) continue;
        const std::size_t use = readers.at[arrival_index(shape, action, target->chunk)];
        Action receive = {action.kind == forward ? receive_activations : receive_gradients,
                          action.microbatch, target->chunk};
        receive.peer = sender;
        posts.push_back({.before = post_before(order, use), .receive = receive});
    }
    // Keep the posts in the order of the sends.
    for (std::size_t i = posts.size(); i-- > 1;) {
        posts[i - 1].before = std::min(posts[i - 1].before, posts[i].before);
    }
    return posts;
}

}  // namespace

std::optional<ChunkPlace> producer_of(const PipelineShape& shape, std::int64_t stage,
                                      const Action& action) {
    return neighbour_of_action(shape, stage, action, -1);
}

std::optional<ChunkPlace> consumer_of(const PipelineShape& shape, std::int64_t stage,
                                      const Action& action) {
    return neighbour_of_action(shape, stage, action, 1);
}

std::vector<Action> with_messages(const PipelineShape& shape, std::int64_t stage,
                                  const OrderOf& order_of) {
    const std::vector<Action> order = order_of(stage);
    const Readers readers = find_readers(shape, stage, order);
    std::vector<std::vector<Action>> posted(order.size());
    for (const std::int64_t sender : readers.senders) {
        for (const PostedReceive& post :
             posts_from(sender, shape, stage, readers, order, order_of(sender))) {
            posted[post.before].push_back(post.receive);
        }
    }
    std::vector<Action> actions;
    for (std::size_t i = 0; i < order.size(); ++i) {
        actions.insert(actions.end(), posted[i].begin(), posted[i].end());
        actions.push_back(order[i]);
        const auto target = consumer_of(shape, stage, order[i]);
        if (!target || target->stage == stage) continue;
        Action send = {order[i].kind == forward ? send_activations : send_gradients,
                       order[i].microbatch, order[i].chunk};
        send.peer = target->stage;
        actions.push_back(send);
    }
    return actions;
}

}  // namespace gptrain
