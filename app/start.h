// What all ranks have in common before they train or use a model.
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

/// The ranks have each read the spec and call it together; one that differs in what all must share
/// is an Error on all. Afterwards errors name a rank's place in the mesh. `cache` as for
/// open_device.
Start start(Ranks& ranks, const RunSpec& spec,
            const std::optional<std::filesystem::path>& cache = std::nullopt);

}  // namespace gptrain
