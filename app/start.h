// The common start of all ranks, before they train or use a model.
#pragma once

#include <filesystem>
#include <optional>

#include "device.h"
#include "ranks.h"
#include "spec/run_plan.h"

namespace gptrain {

struct Start {
    Device device;
    RunPlan plan;
};

/// All ranks call it together, after each has read the spec. Throws an Error on all ranks if one
/// differs in what all must share. Afterwards errors name a rank's place in the mesh. `cache` and
/// `times` as for open_device.
Start start(Ranks& ranks, const RunSpec& spec,
            const std::optional<std::filesystem::path>& cache = std::nullopt,
            StartTimes* times = nullptr);

}  // namespace gptrain
