#include "schedule/action_runner.h"

#include <utility>

namespace gptrain {

ActionRunner::ActionRunner(const ModelContext& context, const std::vector<Tensor>& buffers)
    : context_(context) {
    for (const Tensor& tensor : buffers)
        buffers_.push_back({.tensor = tensor});
}

bool ActionRunner::sends_parts() const {
    const int ranks = context_.mesh.tp().size();
    return ranks > 1 && !context_.sequence_parallel && buffers_.front().tensor.size(0) % ranks == 0;
}

Tensor ActionRunner::own_part(const Tensor& whole) const {
    if (!sends_parts()) return whole;
    const Communicator& tp = context_.mesh.tp();
    const std::int64_t rows = whole.size(0) / tp.size();
    return whole.slice(0, tp.rank() * rows, rows);
}

Communicator& ActionRunner::channel(const Action& action) const {
    const Mesh& mesh = context_.mesh;
    const int own = mesh.place().pp;
    const int peer = narrow<int>(action.peer);
    return mesh.channel(sends(action.kind) ? Channel{own, peer} : Channel{peer, own});
}

void ActionRunner::send(const Action& action) {
    constexpr int receiver = 1;
    const Tensor whole = ready(action.output);
    listeners_.begins(action);
    Buffer& from = buffer(action.output);
    from.message = channel(action).send(own_part(whole), receiver);
    from.under_way = action;
}

void ActionRunner::receive(const Action& action) {
    constexpr int sender = 0;
    const Tensor whole = ready(action.input);
    listeners_.begins(action);
    Buffer& to = buffer(action.input);
    to.message = channel(action).recv(own_part(whole), sender);
    to.under_way = action;
    to.parts = sends_parts();
}

void ActionRunner::settle(Buffer& buffer) {
    buffer.message.wait();
    if (const auto over = std::exchange(buffer.under_way, std::nullopt)) listeners_.ends(*over);
}

Tensor ActionRunner::ready(std::int64_t index) {
    if (index == Action::none) return {};
    Buffer& wanted = buffer(index);
    settle(wanted);
    if (std::exchange(wanted.parts, false)) {
        context_.mesh.tp().all_gather(wanted.tensor, own_part(wanted.tensor), 0).wait();
    }
    return wanted.tensor;
}

void ActionRunner::run(const Schedule& schedule, const Compute& compute) {
    for (std::size_t i = 0; i < schedule.actions.size(); ++i) {
        const Action& action = schedule.actions[i];
        listeners_.reached(action);
        if (!computes(action.kind)) {
            sends(action.kind) ? send(action) : receive(action);
            continue;
        }
        const Boundary ends = {.input = ready(action.input), .output = ready(action.output)};
        listeners_.begins(action);
        compute(i, ends);
        listeners_.ends(action);
    }
    for (Buffer& buffer : buffers_)
        settle(buffer);
}

}  // namespace gptrain
