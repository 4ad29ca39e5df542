#include "schedule/lifetimes.h"

#include <algorithm>
#include <array>
#include <map>

#include "base/at.h"
#include "base/error.h"
#include "schedule/messages.h"

namespace gptrain {
namespace {

/// Hands out indices from 0, the smallest free one first.
class Pool {
public:
    std::int64_t take() {
        for (std::size_t i = 0; i < taken_.size(); ++i) {
            if (!taken_[i]) {
                taken_[i] = true;
                return static_cast<std::int64_t>(i);
            }
        }
        taken_.push_back(true);
        return size() - 1;
    }
    void release(std::int64_t number) { at(taken_, number) = false; }
    std::int64_t size() const { return static_cast<std::int64_t>(taken_.size()); }

private:
    std::vector<bool> taken_;
};

class BufferAssignment {
public:
    BufferAssignment(const PipelineShape& shape, std::int64_t stage)
        : shape_(shape), stage_(stage), arrived_(arrivals(shape)) {}

    void assign(Action& action) {
        if (sends(action.kind)) {
            action.output = last_written_;
        } else if (computes(action.kind)) {
            assign_compute(action);
        } else {
            action.input = arrived(action, action.chunk) = pool_.take();
        }
    }
    std::int64_t size() const { return pool_.size(); }

private:
    struct Ring {
        std::array<std::int64_t, 2> buffers = {Action::none, Action::none};
        std::size_t next = 0;
    };

    /// The index of the buffer that chunk `reader` reads.
    std::int64_t& arrived(const Action& action, std::int64_t reader) {
        return arrived_[arrival_index(shape_, action, reader)];
    }

    void assign_compute(Action& action) {
        if (producer_of(shape_, stage_, action)) action.input = arrived(action, action.chunk);
        if (const auto target = consumer_of(shape_, stage_, action)) {
            if (target->stage == stage_) {
                action.output = pool_.take();
                arrived(action, target->chunk) = action.output;
            } else {
                action.output = next_of(rings_[{target->stage, moves_forward(action.kind)}]);
            }
            last_written_ = action.output;
        }
        if (action.input != Action::none) pool_.release(action.input);
    }

    std::int64_t next_of(Ring& ring) {
        std::int64_t& buffer = ring.buffers[ring.next];
        ring.next = (ring.next + 1) % ring.buffers.size();
        if (buffer == Action::none) buffer = pool_.take();
        return buffer;
    }

    const PipelineShape& shape_;
    std::int64_t stage_;
    Pool pool_;
    std::vector<std::int64_t> arrived_;
    std::map<std::pair<std::int64_t, bool>, Ring> rings_;  ///< by target stage and direction
    std::int64_t last_written_ = Action::none;
};

}  // namespace

std::int64_t assign_slots(const PipelineShape& shape, std::vector<Action>& actions) {
    using enum ActionKind;
    Pool pool;
    std::vector<std::int64_t> slots(
        static_cast<std::size_t>(shape.virtual_stages * shape.microbatches));
    for (Action& action : actions) {
        if (!computes(action.kind) || action.kind == head_weights) continue;
        std::int64_t& slot = at(slots, action.chunk * shape.microbatches + action.microbatch);
        if (action.kind == forward) slot = pool.take();
        action.slot = slot;
        if (action.kind == backward || action.kind == backward_weights) pool.release(slot);
    }
    return pool.size();
}

std::int64_t max_in_head(const PipelineShape& shape, std::int64_t stage,
                         const std::vector<Action>& actions) {
    using enum ActionKind;
    const ChunkPlace last = head_place(shape);
    std::int64_t inside = 0;
    std::int64_t most = 0;
    for (const Action& action : actions) {
        if (stage != last.stage || action.chunk != last.chunk) continue;
        if (action.kind == forward) most = std::max(most, ++inside);
        if (action.kind == backward || action.kind == backward_inputs) --inside;
    }
    return most;
}

std::int64_t assign_buffers(const PipelineShape& shape, std::int64_t stage,
                            std::vector<Action>& actions) {
    BufferAssignment assignment(shape, stage);
    for (Action& action : actions) {
        assignment.assign(action);
    }
    return assignment.size();
}

}  // namespace gptrain
