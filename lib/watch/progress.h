// Keeps this rank's record up to date: what its training thread does, and that it goes on.
#pragma once

#include <cstdint>
#include <string_view>

#include "comm/comm_listener.h"
#include "comm/mpi_session.h"
#include "schedule/action_listener.h"
#include "watch/heartbeats.h"

namespace gptrain {

/// Every call is a move of the rank; a rank that does not move for long hangs. But for `moved` all
/// are made by the training thread.
class Progress final : public CommListener, public SessionListener, public ActionListener {
public:
    /// `slot` outlives it.
    explicit Progress(RankSlot& slot);

    /// What follows belongs to this phase of the run.
    void phase(std::string_view name, std::int64_t step);
    /// What the rank does now, for those who have no list of actions.
    void action(std::string_view what);
    /// A part of something long is done; by any thread.
    void moved() { slot_.move(); }

    void started(const CommCall& call) override;
    void waiting(const CommCall& call) override;
    void finished(const CommCall& call) override;
    void world_waiting(std::string_view operation) override;
    void world_finished() override;
    void reached(const Action& action) override;
    void begins(const Action& action) override;
    void ends(const Action& action) override;
    void step_ends() override;

private:
    void publish();

    RankSlot& slot_;
    RankRecord record_;
};

}  // namespace gptrain
