// Those who watch a run: they are told of every message and every action.
#pragma once

#include "comm/comm_totals.h"
#include "schedule/action_listener.h"
#include "watch/stragglers.h"
#include "watch/watchdog.h"

namespace gptrain {

/// Made before the mesh, whose communicators tell `comm`; outlives it. More listeners may be added
/// before that.
struct Observers {
    explicit Observers(Watchdog& watching) : watchdog(watching) {
        comm.add(totals);
        comm.add(stragglers);
        comm.add(watchdog.progress());
        actions.add(watchdog.progress());
    }
    Observers(const Observers&) = delete;
    Observers& operator=(const Observers&) = delete;

    Watchdog& watchdog;
    CommTotals totals;  ///< the run clears it
    StragglerWatch stragglers;
    CommListeners comm;
    ActionListeners actions;
};

}  // namespace gptrain
