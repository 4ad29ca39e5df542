// Messages that are late: communicators that show when a buffer is used under a message.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/philox.h"
#include "comm/mesh.h"
#include "in_flight.h"
#include "schedule/action_listener.h"

namespace gptrain::test {

/// When a message starts, and reads what it sends: as it is issued, or as late as possible, which
/// is when its rank waits for any message. Later, ranks could wait for each other for ever.
enum class Start { at_wait, at_issue, at_random };
constexpr auto words_of(Start) {
    using enum Start;
    return std::to_array<Word<Start>>(
        {{at_wait, "at_wait"}, {at_issue, "at_issue"}, {at_random, "at_random"}});
}

/// A message: its memory, and how it travels.
struct DelayedMessage {
    using Send = std::function<Pending(const Tensor& to, const Tensor& from)>;

    InFlight memory;
    Send send;  ///< empty once it has started
    Pending pending = {};
};

/// The messages of a rank that have been issued but not started. They start in the order of issue.
class Delays {
public:
    Delays(Start start, const PhiloxKey& random) : start_(start), random_(random) {}

    void issue(std::shared_ptr<DelayedMessage> message);
    void start_all();
    /// Waits for the message, and puts its data in place. `where` is for errors.
    void finish(const std::shared_ptr<DelayedMessage>& message, std::string_view where = {});

private:
    bool starts_now();

    Start start_;
    PhiloxKey random_;
    std::uint32_t drawn_ = 0;
    std::vector<std::shared_ptr<DelayedMessage>> waiting_;
};

/// Wraps the communicators of `make`, whose tensors are in host memory. Their messages start when
/// `start` says, in the order of issue. A buffer that is used under a message gives wrong numbers,
/// or an Error that names the axis, the operation and the action (in_flight.h).
CommunicatorFactory delayed(CommunicatorFactory make, Start start);
/// The same; the factories take turns among the values of Start. GPTRAIN_MESSAGES_START=at_wait
/// sets it for all, to look into a failure.
CommunicatorFactory delayed(CommunicatorFactory make);

/// How the messages of the latest factory start; at_issue if there is none.
Start messages_start();

/// The action of this rank, which errors name if the engine reports to it.
class CurrentAction final : public ActionListener {
public:
    void on_reached(const Action& action) override;
    void on_begin(const Action& /*action*/) override {}
    void on_end(const Action& /*action*/) override {}
    void on_step_end() override { name_.clear(); }
    /// Empty outside the list of actions.
    const std::string& name() const { return name_; }

private:
    std::string name_;
};
CurrentAction& current_action();

}  // namespace gptrain::test
