// The engine of training steps, with what listens to it.
#pragma once

#include <memory>

#include "engine/engine.h"
#include "engine/measure.h"
#include "train/injected_faults.h"
#include "train/run_devices.h"

namespace gptrain {

struct ObservedEngine {
    std::unique_ptr<Engine> engine;
    std::unique_ptr<InjectedFaults> faults;  ///< in tests only
};

/// Tunes for the ops of `cost`, then makes the engine; its weights are not initialised. All ranks
/// call it together. The arguments must outlive the engine.
ObservedEngine make_engine(const RunSpec& spec, const RunPlan& plan, const RunDevices& devices,
                           const StepCost& cost);

}  // namespace gptrain
