#include "planner/simulate.h"

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <utility>

#include "base/error.h"
#include "schedule/messages.h"

namespace gptrain {
namespace {

using enum ActionKind;

/// Contents of a boundary buffer.
struct Content {
    bool gradients;
    std::int64_t microbatch;
    ChunkPlace reader;
    bool operator==(const Content&) const = default;
};

std::string to_text(const std::optional<Content>& content) {
    if (!content) return "nothing";
    return text(content->gradients ? "the gradients" : "the activations", " of microbatch ",
                content->microbatch, " for chunk ", content->reader.chunk, " of stage ",
                content->reader.stage);
}

/// Messages from one stage to another. The k-th send matches the k-th receive.
struct Channel {
    struct End {
        Content content;
        double issued;
        std::int64_t chunk;  ///< of the stage that issued it
    };
    std::vector<End> sent;
    std::vector<End> posted;
    std::vector<double> done;  ///< end times of matched messages
};

/// A message by its index in a channel.
struct MessageRef {
    Channel* channel;
    std::size_t index;
    std::int64_t peer;  ///< the stage that must issue the other end
    bool matched() const { return index < channel->done.size(); }
    double done() const { return channel->done[index]; }
};

struct Buffer {
    std::optional<Content> content;
    std::optional<MessageRef> message;  ///< the last message that used it
};

struct Stage {
    const std::vector<Action>& actions;
    std::vector<Buffer> buffers;
    std::size_t next = 0;
    double clock = 0;
    bool ended() const { return next == actions.size(); }
};

class Simulation {
public:
    Simulation(const Pipeline& pipeline, const PipelineCosts& costs)
        : shape_(pipeline.shape), costs_(costs) {
        for (const Schedule& schedule : pipeline.stages) {
            stages_.push_back({schedule.actions,
                               std::vector<Buffer>(static_cast<std::size_t>(schedule.buffers))});
        }
    }

    std::vector<TimelineEvent> run();

private:
    /// Runs actions of a stage until one has to wait.
    void advance(std::int64_t stage);
    void compute(std::int64_t stage, const Action& action);
    void send(std::int64_t stage, const Action& action);
    void receive(std::int64_t stage, const Action& action);
    void match(std::int64_t from, std::int64_t to, Channel& channel);

    /// The message that the stage's next action must wait for, if any.
    std::optional<MessageRef> blocking_message(std::int64_t stage);
    /// Waits for the message that uses the buffer.
    Buffer& wait_for_buffer(std::int64_t stage, std::int64_t buffer);
    void expect(std::int64_t stage, const Action& action, const std::optional<Content>& found,
                const Content& expected) const;
    /// The contents that a message carries.
    Content carried(std::int64_t stage, const Action& message) const;
    /// Seconds of the stage's next action, which this is.
    double cost(std::int64_t stage, const Action& action) const;

    std::string name(std::int64_t stage, const Action& action) const {
        return text("stage ", stage, ", ", gptrain::to_text(action, shape_.virtual_stages));
    }
    [[noreturn]] void report_deadlock(std::int64_t stage);
    void check_ends() const;

    Stage& at(std::int64_t stage) { return stages_[static_cast<std::size_t>(stage)]; }

    const PipelineShape& shape_;
    const PipelineCosts& costs_;
    std::vector<Stage> stages_;
    std::map<std::pair<std::int64_t, std::int64_t>, Channel> channels_;  ///< [{from, to}]
    std::deque<std::int64_t> ready_;
    std::vector<TimelineEvent> events_;
};

std::vector<TimelineEvent> Simulation::run() {
    for (std::int64_t stage = 0; stage < shape_.stages; ++stage) {
        ready_.push_back(stage);
    }
    while (!ready_.empty()) {
        const std::int64_t stage = ready_.front();
        ready_.pop_front();
        advance(stage);
    }
    for (std::int64_t stage = 0; stage < shape_.stages; ++stage) {
        if (!at(stage).ended()) report_deadlock(stage);
    }
    check_ends();
    return std::move(events_);
}

void Simulation::advance(std::int64_t stage) {
    Stage& state = at(stage);
    while (!state.ended() && !blocking_message(stage)) {
        const Action& action = state.actions[state.next];
        if (computes(action.kind)) {
            compute(stage, action);
        } else if (sends(action.kind)) {
            send(stage, action);
        } else {
            receive(stage, action);
        }
        ++state.next;
    }
}

std::optional<MessageRef> Simulation::blocking_message(std::int64_t stage) {
    const Stage& state = at(stage);
    const Action& action = state.actions[state.next];
    for (const std::int64_t buffer : {action.input, action.output}) {
        if (buffer == Action::none) continue;
        const auto& message = state.buffers.at(static_cast<std::size_t>(buffer)).message;
        if (message && !message->matched()) return message;
    }
    return {};
}

Buffer& Simulation::wait_for_buffer(std::int64_t stage, std::int64_t buffer) {
    Stage& state = at(stage);
    Buffer& found = state.buffers[static_cast<std::size_t>(buffer)];
    if (found.message) state.clock = std::max(state.clock, found.message->done());
    found.message.reset();
    return found;
}

void Simulation::compute(std::int64_t stage, const Action& action) {
    const bool gradients = action.kind != forward;
    const auto source = producer_of(shape_, stage, action);
    const auto target = consumer_of(shape_, stage, action);
    GPTRAIN_CHECK(source.has_value() == (action.input != Action::none) &&
                      target.has_value() == (action.output != Action::none),
                  name(stage, action), " lacks its neighbours' buffers");
    if (source) {
        Buffer& input = wait_for_buffer(stage, action.input);
        expect(stage, action, input.content, {gradients, action.microbatch, {stage, action.chunk}});
        input.content.reset();
    }
    if (target) {
        wait_for_buffer(stage, action.output).content = {gradients, action.microbatch, *target};
    }
    double& clock = at(stage).clock;
    const double begin = clock;
    clock += cost(stage, action);
    events_.push_back({stage, action.kind, action.chunk, action.microbatch, begin, clock});
}

double Simulation::cost(std::int64_t stage, const Action& action) const {
    const ChunkCost& chunk =
        costs_.chunks.at(static_cast<std::size_t>(model_chunk_at(shape_, {stage, action.chunk})));
    const Stage& state = stages_[static_cast<std::size_t>(stage)];
    const double saving = starts_gradients(state.actions, state.next) ? chunk.first_saving : 0;
    switch (action.kind) {
        case forward:
            return action.deferred_head == Action::none ? chunk.forward
                                                        : chunk.forward - chunk.head_weights;
        case head_weights: return chunk.head_weights;
        case backward_inputs: return chunk.backward_inputs;
        case backward_weights: return chunk.backward_weights - saving;
        default: return chunk.backward_inputs + chunk.backward_weights - saving;
    }
}

Content Simulation::carried(std::int64_t stage, const Action& message) const {
    const bool gradients = message.kind == send_gradients || message.kind == receive_gradients;
    ChunkPlace reader = {stage, message.chunk};
    if (sends(message.kind)) {
        Action writer = message;
        writer.kind = gradients ? backward : forward;
        const auto target = consumer_of(shape_, stage, writer);
        GPTRAIN_CHECK(target && target->stage == message.peer, name(stage, message),
                      " has no such neighbour");
        reader = *target;
    }
    return {gradients, message.microbatch, reader};
}

void Simulation::send(std::int64_t stage, const Action& action) {
    Buffer& buffer = wait_for_buffer(stage, action.output);
    const Content content = carried(stage, action);
    expect(stage, action, buffer.content, content);
    Channel& channel = channels_[{stage, action.peer}];
    buffer.message = {&channel, channel.sent.size(), action.peer};
    channel.sent.push_back({content, at(stage).clock, action.chunk});
    match(stage, action.peer, channel);
}

void Simulation::receive(std::int64_t stage, const Action& action) {
    Buffer& buffer = wait_for_buffer(stage, action.input);
    Channel& channel = channels_[{action.peer, stage}];
    buffer.content = carried(stage, action);
    buffer.message = {&channel, channel.posted.size(), action.peer};
    channel.posted.push_back({*buffer.content, at(stage).clock, action.chunk});
    match(action.peer, stage, channel);
}

void Simulation::match(std::int64_t from, std::int64_t to, Channel& channel) {
    const std::size_t index = channel.done.size();
    if (index >= channel.sent.size() || index >= channel.posted.size()) return;
    const Channel::End& sent = channel.sent[index];
    const Channel::End& posted = channel.posted[index];
    if (sent.content != posted.content) {
        fail(ExitCode::bug, "message ", index, " from stage ", from, " to stage ", to, " is ",
             to_text(sent.content), ", but stage ", to, " receives ", to_text(posted.content));
    }
    const double before = channel.done.empty() ? 0 : channel.done.back();
    const double begin = std::max({sent.issued, posted.issued, before});
    const double end = begin + costs_.message;
    channel.done.push_back(end);
    if (begin < end) {
        const ActionKind kind = sent.content.gradients ? send_gradients : send_activations;
        events_.push_back({from, kind, sent.chunk, sent.content.microbatch, begin, end});
    }
    ready_.push_back(from);
    ready_.push_back(to);
}

void Simulation::expect(std::int64_t stage, const Action& action,
                        const std::optional<Content>& found, const Content& expected) const {
    if (found == expected) return;
    fail(ExitCode::bug, name(stage, action), ": its buffer holds ", to_text(found), ", not ",
         to_text(expected));
}

void Simulation::report_deadlock(std::int64_t stage) {
    std::string chain;
    std::vector<bool> seen(stages_.size());
    while (!at(stage).ended() && !seen[static_cast<std::size_t>(stage)]) {
        seen[static_cast<std::size_t>(stage)] = true;
        const MessageRef message = *blocking_message(stage);
        const bool sent = message.index < message.channel->sent.size();
        const auto& own_end = (sent ? message.channel->sent : message.channel->posted);
        chain += text(name(stage, at(stage).actions[at(stage).next]), " waits until stage ",
                      message.peer, sent ? " receives " : " sends ",
                      to_text(own_end[message.index].content), "; ");
        stage = message.peer;
    }
    fail(ExitCode::bug, "the pipeline deadlocks: ", chain, "stage ", stage,
         at(stage).ended() ? " has ended" : " is one of them");
}

void Simulation::check_ends() const {
    for (const auto& [ends, channel] : channels_) {
        const auto& [from, to] = ends;
        const std::size_t matched = channel.done.size();
        if (matched < channel.sent.size()) {
            fail(ExitCode::bug, "stage ", from, " sends ", to_text(channel.sent[matched].content),
                 ", which stage ", to, " never receives");
        }
        if (matched < channel.posted.size()) {
            fail(ExitCode::bug, "stage ", to, " receives ",
                 to_text(channel.posted[matched].content), ", which stage ", from, " never sends");
        }
    }
}

}  // namespace

Timeline simulate(const Pipeline& pipeline, const PipelineCosts& costs) {
    const PipelineShape& shape = pipeline.shape;
    GPTRAIN_CHECK(std::cmp_equal(pipeline.stages.size(), shape.stages) &&
                      std::cmp_equal(costs.chunks.size(), shape.model_chunks()),
                  "lists or costs of another pipeline");
    const std::string chunks =
        shape.virtual_stages > 1 ? text(" with ", shape.virtual_stages, " chunks each") : "";
    return {.title = text(name_of(shape.kind), ", ", shape.stages, " stages", chunks, ", ",
                          shape.microbatches, " microbatches"),
            .stages = shape.stages,
            .chunks = shape.virtual_stages,
            .events = Simulation(pipeline, costs).run()};
}

}  // namespace gptrain
