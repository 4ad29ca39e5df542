#include "train/make_engine.h"

#include "calibrate/tuning.h"
#include "metrics/run_directory.h"

namespace gptrain {

ObservedEngine make_engine(const RunSpec& spec, const RunPlan& plan, const RunDevices& devices,
                           const StepCost& cost) {
    const MpiSession& ranks = devices.ranks;
    Progress& progress = devices.observers.watchdog.progress();
    progress.phase("tune", 0);
    devices.start_times.begin(StartPhase::tune);
    prepare_linear_ops(devices.backend, cost.linear_ops, op_limits(plan), ranks,
                       [&] { progress.record_move(); });
    progress.phase("load", 0);
    devices.start_times.begin(StartPhase::memory);
    ObservedEngine made;
    ranks.run_on_all([&] {
        made.engine = std::make_unique<Engine>(devices.backend, devices.mesh, plan, cost.memory);
        made.engine->listen(devices.observers.actions);
        if (!spec.fault_injection) return;
        made.faults = std::make_unique<InjectedFaults>(
            *spec.fault_injection, InjectedFaults::Target{*made.engine, plan, ranks.rank(),
                                                          RunPaths{spec.output_dir}.checkpoints()});
        made.engine->listen(*made.faults);
    });
    return made;
}

}  // namespace gptrain
