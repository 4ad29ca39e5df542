// What a rank does of its list of actions, as told to those who watch: timelines, the watchdog.
#pragma once

#include "schedule/schedule.h"

namespace gptrain {

/// Is told of every action of a step in this order, by the thread that trains. On a device that
/// computes behind the host's back these are times of issue.
class ActionListener {
public:
    virtual ~ActionListener() = default;
    virtual void step_begins() {}
    /// The list has come to it; it may have to wait for messages of earlier actions first.
    virtual void reached(const Action& /*action*/) {}
    /// Its buffers are ready: F, BW, B or W computes, or the message is issued.
    virtual void begins(const Action& action) = 0;
    /// F, BW, B or W was computed. A message was waited for, by the action that needs its buffer
    /// next or at the end of the list.
    virtual void ends(const Action& action) = 0;
    /// All actions have ended, and so has the reduction of gradients.
    virtual void step_ends() {}
};

/// Tells any number of listeners, in the order in which they came.
class ActionListeners final : public ActionListener {
public:
    /// `listener` outlives the executor.
    void add(ActionListener& listener) { listeners_.push_back(&listener); }

    void step_begins() override;
    void reached(const Action& action) override;
    void begins(const Action& action) override;
    void ends(const Action& action) override;
    void step_ends() override;

private:
    std::vector<ActionListener*> listeners_;
};

}  // namespace gptrain
