// The estimate of a run on given hardware: time, share of the peak, cost.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/json.h"
#include "planner/mesh_cost.h"
#include "planner/traced_step.h"

namespace gptrain {

struct StepEstimate {
    std::string hardware;
    bool calibrated = false;  ///< the profile was measured (HardwareProfile)
    std::int64_t world_size = 1;
    double devices = 1;  ///< of all ranks: GPUs, or cores of a CPU; what the figures below count
    StepTime step;
    double tokens_per_second = 0;
    double mfu = 0;   ///< model FLOPs / peak of the compute dtype; recomputation does not count
    double hfu = 0;   ///< FLOPs computed / peak; parameters that no GEMM reads count as in mfu
    double days = 0;  ///< for all steps of the run
    double device_hours = 0;        ///< for all steps of the run
    double cost = 0;                ///< in the profile's currency; 0: no price there
    double megawatt_hours = 0;      ///< 0: no watts in the profile
    std::int64_t device_bytes = 0;  ///< of the rank that needs the most, libraries aside
    std::int64_t host_bytes = 0;    ///< of the same rank
    /// The part of the available memory that the run leaves, libraries counted; below 0 if that is
    /// too small. Only a dry run knows it.
    std::optional<std::int64_t> memory_left_bytes;
};

/// Times the step; `ranks` (measure_mesh) have its FLOPs and memory. Steps before the end of a
/// batch ramp-up count by their samples.
StepEstimate estimate_step(TracedStep& step, std::span<const RankCost> ranks,
                           const HardwareProfile& hardware);

/// The seconds of a step by category (docs/outputs.md): in files GEMMs are "products".
Json json_of(const StepTime& step);

/// One JSON object, with a line break at its end (docs/outputs.md lists its members).
std::string to_json(const StepEstimate& estimate);

}  // namespace gptrain
