// Walks through the actions of a schedule on one stage: exchanges boundary buffers with other
// stages and leaves the computation to its caller.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "model/chunk.h"
#include "schedule/action_listener.h"
#include "schedule/schedule.h"

namespace gptrain {

class ActionRunner {
public:
    /// `buffers` are the stage's boundary buffers, [rows, H] of the residual stream each. The
    /// context must outlive the runner.
    ActionRunner(const ModelContext& context, const std::vector<Tensor>& buffers);

    /// Listeners of all actions. The caller reports the start and end of steps.
    ActionListeners& listeners() { return listeners_; }
    std::int64_t buffers() const { return std::ssize(buffers_); }

    /// Computes the action at `index` of the list, with its boundary buffers.
    using Compute = std::function<void(std::size_t index, const Boundary& ends)>;
    /// Runs the list. No message is in flight when it returns.
    void run(const Schedule& schedule, const Compute& compute);

private:
    /// A boundary buffer, and the message in flight to or from it.
    struct Buffer {
        Tensor tensor;
        Pending message = {};
        std::optional<Action> in_flight = {};  ///< that message's action, until it was waited for
        bool parts = false;                    ///< only this rank's part of the buffer arrives
    };
    /// Waits for the buffer's message, if any.
    void wait_for_message(Buffer& buffer);
    Buffer& buffer(std::int64_t index) { return buffers_[static_cast<std::size_t>(index)]; }
    /// Waits for the buffer's message and gathers its parts; empty for Action::none.
    Tensor wait_for_buffer(std::int64_t index);
    /// If tp ranks hold the same activations, each sends its part and the receivers gather them
    /// (scatter/gather of Narayanan et al. 2021, arXiv 2104.04473).
    bool sends_parts() const;
    Tensor own_part(const Tensor& whole) const;
    Communicator& channel_of(const Action& message) const;
    /// Starts to send or receive a buffer.
    void start_message(const Action& message);

    const ModelContext& context_;
    ActionListeners listeners_;
    std::vector<Buffer> buffers_;
};

}  // namespace gptrain
