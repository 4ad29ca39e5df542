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

Communicator& ActionRunner::channel_of(const Action& message) const {
    const Mesh& mesh = context_.mesh;
    const int own = mesh.place().pp;
    const int peer = narrow<int>(message.peer);
    return mesh.channel(sends(message.kind) ? Channel{own, peer} : Channel{peer, own});
}

void ActionRunner::start_message(const Action& message) {
    constexpr int sender = 0;
    constexpr int receiver = 1;
    const bool out = sends(message.kind);
    const std::int64_t index = out ? message.output : message.input;
    const Tensor part = own_part(wait_for_buffer(index));
    listeners_.on_begin(message);
    Communicator& channel = channel_of(message);
    Buffer& used = buffer(index);
    used.message = out ? channel.send(part, receiver) : channel.recv(part, sender);
    used.in_flight = message;
    used.parts = !out && sends_parts();
}

void ActionRunner::wait_for_message(Buffer& buffer) {
    buffer.message.wait();
    if (const auto ended = std::exchange(buffer.in_flight, std::nullopt)) listeners_.on_end(*ended);
}

Tensor ActionRunner::wait_for_buffer(std::int64_t index) {
    if (index == Action::none) return {};
    Buffer& wanted = buffer(index);
    wait_for_message(wanted);
    if (std::exchange(wanted.parts, false)) {
        context_.mesh.tp().all_gather(wanted.tensor, own_part(wanted.tensor), 0).wait();
    }
    return wanted.tensor;
}

void ActionRunner::run(const Schedule& schedule, const Compute& compute) {
    for (std::size_t i = 0; i < schedule.actions.size(); ++i) {
        const Action& action = schedule.actions[i];
        listeners_.on_reached(action);
        if (!computes(action.kind)) {
            start_message(action);
            continue;
        }
        const Boundary ends = {.input = wait_for_buffer(action.input),
                               .output = wait_for_buffer(action.output)};
        listeners_.on_begin(action);
        compute(i, ends);
        listeners_.on_end(action);
    }
    for (Buffer& buffer : buffers_)
        wait_for_message(buffer);
}

}  // namespace gptrain
