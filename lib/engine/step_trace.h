// The trace of a step of a rank: ops, messages and waits, as the meter sees them, in the order in
// which the host issues them. The planner prices and times it (planner/step_time.h).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "comm/comm_listener.h"
#include "hardware/op_time.h"
#include "meter/op_listener.h"
#include "schedule/action_listener.h"

namespace gptrain {

/// The numbers of the "communicators" whose messages are copies beside computation: "fetch" and
/// "store", in both of which no other rank takes part. Higher than those of all others.
constexpr int first_host_link = 1 << 20;
constexpr bool is_host_link(int communicator) {
    return communicator >= first_host_link;
}

/// One operation of a communicator.
struct TraceMessage {
    Axis axis = Axis::tp;
    int communicator = 0;  ///< as in CommCall
    std::string_view operation;
    std::int64_t bytes = 0;            ///< sent, of a collective by the rank that sends the most
    std::int64_t peer = Action::none;  ///< the other stage of a message between two stages

    bool operator==(const TraceMessage&) const = default;
};

struct TraceEvent {
    enum class Kind : std::int32_t {
        op,       ///< issue an op
        message,  ///< issue a message
        wait,     ///< order what follows after a message
    };
    Kind kind;
    std::int32_t index;  ///< in `ops` or `messages`; for a wait, the communicator
    /// For a wait: how many later operations of the communicator were issued before the wait. The
    /// operation waited for may belong to the previous step.
    std::int32_t distance;
};

/// Most actions of a step do the same, so a step is stored as a list of parts that refer to bodies.
struct StepTrace {
    struct Part {
        std::int32_t body = 0;
        std::optional<Action> action;  ///< F, BW, B, W or WH, if the part is one
    };
    std::vector<OpWork> ops;                      ///< distinct
    std::vector<TraceMessage> messages;           ///< distinct
    std::vector<std::vector<TraceEvent>> bodies;  ///< distinct
    std::vector<Part> parts;
};

/// Records what happens between `begin` and `take`. It listens to the meter's ops, the mesh's
/// communicators and the executor.
class TraceRecorder final : public OpListener, public CommListener, public ActionListener {
public:
    void begin();
    StepTrace take();

    void on_op(const OpWork& op) override;
    void on_started(const HostCopies& copies) override;
    void on_joined(HostCopies::Direction direction, std::int64_t number) override;

    void on_started(const CommCall& call) override;
    void on_waiting(const CommCall& call) override;
    void on_finished(const CommCall& /*call*/) override {}

    void on_begin(const Action& action) override;
    void on_end(const Action& action) override;

private:
    void add(TraceEvent::Kind kind, std::size_t index, std::int64_t distance = 0);
    void close_body(const std::optional<Action>& action);

    bool recording_ = false;
    StepTrace trace_;
    std::vector<TraceEvent> body_;
    std::optional<Action> message_;       ///< the message between stages that is being issued
    std::map<int, std::int64_t> issued_;  ///< operations so far, by communicator
    struct OpHash {
        std::size_t operator()(const OpWork& op) const;
    };
    std::unordered_map<OpWork, std::size_t, OpHash> known_ops_;
    std::unordered_map<std::string, std::int32_t> known_bodies_;
};

}  // namespace gptrain
