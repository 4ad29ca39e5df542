// Keeps this rank's record up to date: what its training thread does, and that it moves.
#pragma once

#include <cstdint>
#include <string_view>

#include "comm/comm_listener.h"
#include "comm/mpi_session.h"
#include "schedule/action_listener.h"
#include "watch/heartbeats.h"
#include "watch/silences.h"

namespace gptrain {

/// Every call counts as a move of the rank; a rank that does not move for long hangs. Only the
/// training thread makes calls, except for `record_move` and `on_device`.
class Progress final : public CommListener, public SessionListener, public ActionListener {
public:
    /// `slot` must outlive it.
    explicit Progress(RankSlot& slot);

    /// Starts this phase of the run.
    void phase(std::string_view name, std::int64_t step);
    /// Records the current action of the rank, for callers without a list of actions.
    void action(std::string_view what);
    /// The rank has this many microbatches in the step.
    void work(std::int64_t microbatches);
    /// Part of a long operation is done. Can be called by any thread.
    void record_move() { slot_.move(); }

    void on_started(const CommCall& call) override;
    void on_waiting(const CommCall& call) override { record(call, true); }
    void on_finished(const CommCall& /*call*/) override { end_wait(); }
    void on_device(const DeviceProgress& progress) override;
    void on_wait(std::string_view operation) override;
    void on_wait_end() override { end_wait(); }
    void on_reached(const Action& action) override;
    void on_begin(const Action& /*action*/) override { record_move(); }
    void on_end(const Action& /*action*/) override { record_move(); }
    void on_step_end() override { action({}); }

private:
    void publish();
    void record(const CommCall& call, bool waiting);
    void end_wait();

    RankSlot& slot_;
    RankRecord record_;
};

}  // namespace gptrain
