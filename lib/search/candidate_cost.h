// The plan of a candidate; its time and memory, from running the program itself on the meter.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "planner/step_estimate.h"
#include "search/choices.h"
#include "spec/make_plan.h"

namespace gptrain {

/// The settings that all candidates of a search share. All arguments outlive it.
struct SearchContext {
    const RunSpec& spec;
    PlanTarget target;
    const BackendMemory& needs;
    const HardwareProfile& hardware;
    double capacity = 0;  ///< bytes for one rank, with the reserve for libraries
    /// Bytes of host memory for one rank of a GPU; 0: any number.
    double host_capacity = 0;
};

RunPlan plan_of(const SearchContext& context, const Choices& choices);

/// The time of a step, without its timeline, FLOPs and memory; the last two need a measurement of
/// every rank class.
StepEstimate time_of(const SearchContext& context, const RunPlan& plan);

/// The memory that the rank at `place` needs for this plan of memory, with what libraries take.
std::int64_t required_bytes(const SearchContext& context, const RunPlan& plan,
                            const MeshPlace& place, const MeshConnections& connections,
                            const MemoryPlan& memory);

/// The larger memory of two ranks: the first of the first stage and the first of the last stage.
std::int64_t ends_memory(const SearchContext& context, const RunPlan& plan);

/// Bytes that a rank needs.
struct RankNeeds {
    std::int64_t device = 0;
    std::int64_t host = 0;  ///< of a rank of a GPU
};
/// The most that any rank needs of each.
RankNeeds mesh_memory(const SearchContext& context, const RunPlan& plan);

/// Why the host of the ranks cannot hold what they need; empty if it can.
std::optional<std::string> host_shortage(const SearchContext& context, const RankNeeds& needs);

}  // namespace gptrain
