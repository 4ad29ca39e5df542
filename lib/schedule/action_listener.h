// Callbacks for a rank's progress through its actions, for timelines and the watchdog.
#pragma once

#include <vector>

#include "schedule/action.h"

namespace gptrain {

/// Called for every action of a step, in the order below, by the training thread. On a device that
/// runs asynchronously these are times of issue.
class ActionListener {
public:
    virtual ~ActionListener() = default;
    virtual void on_step_begin() {}
    /// The action is next; it may first have to wait for messages of earlier actions.
    virtual void on_reached(const Action& /*action*/) {}
    /// Its buffers are ready: F, BW, B, W or WH starts to compute, or the message is issued.
    virtual void on_begin(const Action& action) = 0;
    /// F, BW, B, W or WH is done. A message ends when it has been waited for, by the next action
    /// that needs its buffer or at the end of the list.
    virtual void on_end(const Action& action) = 0;
    /// All actions and the reduction of gradients are done.
    virtual void on_step_end() {}
};

/// Forwards to any number of listeners, in the order they were added.
class ActionListeners final : public ActionListener {
public:
    /// `listener` must outlive the executor.
    void add(ActionListener& listener) { listeners_.push_back(&listener); }

    void on_step_begin() override;
    void on_reached(const Action& action) override;
    void on_begin(const Action& action) override;
    void on_end(const Action& action) override;
    void on_step_end() override;

private:
    std::vector<ActionListener*> listeners_;
};

}  // namespace gptrain
