// The observers of a run: they receive every communication and every action.
#pragma once

#include "comm/comm_totals.h"
#include "schedule/action_listener.h"
#include "watch/stragglers.h"
#include "watch/watchdog.h"

namespace gptrain {

/// Construct it before the mesh, whose communicators report to `comm`; it must outlive the mesh.
/// Add further listeners before the mesh is made.
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
    CommTotals totals;  ///< cleared by the run
    StragglerWatch stragglers;
    CommListeners comm;
    ActionListeners actions;
};

}  // namespace gptrain
