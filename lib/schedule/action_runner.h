// Goes through the actions of a schedule on one stage: it exchanges the boundary buffers with other
// stages, and leaves what is computed to its caller.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "model/chunk.h"
#include "schedule/action_listener.h"

namespace gptrain {

class ActionRunner {
public:
    /// `buffers`: the stage's boundary buffers, [rows, H] of the residual stream each. The context
    /// outlives the runner.
    ActionRunner(const ModelContext& context, const std::vector<Tensor>& buffers);

    /// Those who are told of all actions. Of whole steps the caller tells.
    ActionListeners& listeners() { return listeners_; }
    std::int64_t buffers() const { return std::ssize(buffers_); }

    /// Computes the action at an index of the list, between these buffers of it.
    using Compute = std::function<void(std::size_t index, const Boundary& ends)>;
    /// Runs the list. At the end no message is under way.
    void run(const Schedule& schedule, const Compute& compute);

private:
    /// A boundary buffer, and the message under way to or from it.
    struct Buffer {
        Tensor tensor;
        Pending message = {};
        std::optional<Action> under_way = {};  ///< of the message, until it was waited for
        bool parts = false;                    ///< what arrives is this rank's part of it
    };
    /// Waits for the buffer's message, if any.
    void settle(Buffer& buffer);
    Buffer& buffer(std::int64_t index) { return buffers_[static_cast<std::size_t>(index)]; }
    /// The buffer after its message; empty for none.
    Tensor ready(std::int64_t index);
    /// Where tp ranks hold the same activations each sends its part, and the receivers gather them
    /// (Narayanan et al. 2021, arXiv 2104.04473, scatter/gather).
    bool sends_parts() const;
    Tensor own_part(const Tensor& whole) const;
    Communicator& channel(const Action& action) const;
    /// Starts to send or to receive.
    void exchange(const Action& message);

    const ModelContext& context_;
    ActionListeners listeners_;
    std::vector<Buffer> buffers_;
};

}  // namespace gptrain
