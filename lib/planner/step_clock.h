// The state that the simulation of a step keeps of each stage and of the messages between them.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "planner/step_prices.h"

namespace gptrain {

constexpr int simulated_steps = 3;  ///< the last one counts

/// An issued message of one stage. Times are seconds since the first step's start.
struct IssuedMessage {
    PricedMessage price;
    std::string_view operation;
    int communicator = 0;
    std::int64_t number = 0;  ///< among the messages of the stage
    double start = 0;         ///< the time from which on this stage can move data
    double delay = 0;  ///< by how much earlier messages of other communicators delayed the start
    Spent held_by = Spent::tp;  ///< what the delay counts as
    double begin = 0;           ///< data moves
    double end = 0;
    bool met = false;  ///< begin and end are known
    bool waited = false;
};

/// A message that takes computing speed.
struct Transfer {
    std::int64_t message = 0;  ///< IssuedMessage.number
    double posted = 0;         ///< from then on it holds multiprocessors
    double begin = 0;          ///< data move
    double end = 0;
    double slowdown = 0;      ///< PricedMessage.slowdown, while data move
    std::int64_t blocks = 0;  ///< PricedMessage.blocks
};

/// A communicator of a stage: its messages in the order of issue, without those at the front that
/// have been waited for.
struct MessageQueue {
    std::deque<IssuedMessage> messages;
    double last_end = 0;
};

struct StageClock {
    const StepTrace* trace = nullptr;
    StepPrices prices;
    int step = 0;
    std::size_t part = 0;   ///< of the step
    std::size_t event = 0;  ///< of the part
    double host = 0;        ///< the host has issued everything before
    double device = 0;      ///< the device has computed everything before
    bool ready = true;      ///< does not wait for another stage
    /// The last interval in which the stage had nothing to do; its end is unknown until another
    /// stage is simulated.
    double idle_from = 0;
    double idle_until = 0;
    double part_begin = 0;
    ActionKind last_kind = ActionKind::forward;  ///< of the last action that ended
    std::vector<Transfer> transfers;
    std::int64_t messages = 0;  ///< issued so far
    /// The slowdown of an op by a message, by the op's index and the message's blocks.
    std::map<std::pair<std::int64_t, std::int64_t>, double> crowded;
    double last_start = 0;  ///< of the message issued last, on any communicator
    Spent last_spent = Spent::tp;
    std::size_t last_action = 0;         ///< index of the step's last part that is an action
    double postponed = 0;                ///< seconds of reductions that wait for the last action
    std::map<int, MessageQueue> queues;  ///< by communicator
    std::array<double, spent_kinds> spent{};
    std::array<double, simulated_steps> ends{};
};

/// Notes what a message that has started, or whose data have begun to move, takes of the stage's
/// computing speed.
void takes_speed(StageClock& stage, const IssuedMessage& message);

/// Seconds that messages add to an op (its index) that starts now and alone takes `seconds`, as far
/// as they are known: data whose sender is simulated later do not move yet.
double delay_by_messages(StageClock& stage, const DeviceProfile& device, std::int64_t op,
                         double seconds);

/// The messages that move data together: the k-th of each stage that takes part.
struct MessageMeeting {
    std::vector<std::pair<std::int64_t, IssuedMessage*>> arrived;
    bool over = false;
};

/// The point where messages of stages meet: a sender and its receiver, or an axis.
struct MeetingPoint {
    std::deque<MessageMeeting> open;
    std::map<std::int64_t, std::int64_t> issued;  ///< by stage
    std::int64_t closed = 0;                      ///< meetings before `open`
};

}  // namespace gptrain
