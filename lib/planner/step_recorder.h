// Timelines of real runs: what the stages of one pipeline did in a step, as measured.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "comm/comm_listener.h"
#include "comm/mpi_session.h"
#include "planner/timeline.h"
#include "schedule/action_listener.h"

namespace gptrain {

/// A step of one rank, in seconds of its clock.
struct StepRecord {
    struct ActionTimes {
        Action action;
        double begin;
        double end;
    };
    struct OperationTimes {
        std::string name;
        double begin;
        double wait;
        double end;
    };
    std::vector<ActionTimes> actions;        ///< ordered by start
    std::vector<OperationTimes> operations;  ///< all except the messages of actions, ordered by end
};

/// Records one step. It listens to the mesh's communicators and the executor. If the host does not
/// wait for the device, its times are times of issue.
class StepRecorder final : public ActionListener, public CommListener {
public:
    /// Calls `done` at the end of step number `step`, counted from the first step it observes.
    StepRecorder(std::int64_t step, std::function<void(const StepRecord&)> done)
        : wanted_(step), done_(std::move(done)) {}

    /// True once the step has ended.
    bool complete() const { return steps_ >= wanted_ && !recording_; }

    void on_step_begin() override;
    void on_begin(const Action& action) override;
    void on_end(const Action& action) override;
    void on_step_end() override;

    void on_started(const CommCall& call) override;
    void on_waiting(const CommCall& call) override;
    void on_finished(const CommCall& call) override;

private:
    /// Start and wait times of operations in flight, by communicator and number. Operations of
    /// earlier steps may extend into the recorded one.
    std::map<std::pair<int, std::int64_t>, std::pair<double, double>> in_flight_;
    std::int64_t wanted_;
    std::function<void(const StepRecord&)> done_;
    std::int64_t steps_ = 0;
    bool recording_ = false;
    double step_begin_ = 0;
    StepRecord record_;
};

/// The pipeline of the first ranks of dp, cp and tp, on rank 0's clock. All ranks call it together
/// with their records, and all get the result. A message lasts from its send (on the sender) or its
/// receive (on the receiver) until the receiver has waited for it.
///
/// Ranks of one machine share a clock. Other clocks are read after barriers, and the median
/// difference is used: it is accurate to about the time that a barrier takes to reach all ranks.
Timeline gather_timeline(const StepRecord& own, const MeshShape& mesh, const MpiSession& ranks);

}  // namespace gptrain
