// The cost of a run, from an engine on the meter.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/linear_op.h"
#include "backend/memory.h"
#include "comm/comm_totals.h"
#include "engine/step_trace.h"
#include "meter/meter_backend.h"
#include "meter/meter_communicator.h"
#include "spec/run_plan.h"

namespace gptrain {

/// The cost of a step on one rank.
struct StepCost {
    MemoryPlan memory;
    LinearOps linear_ops;       ///< used in steps and evaluations
    Work forward_and_backward;  ///< of this rank in one step at the final global batch size
    std::int64_t microbatches = 0;
    CommTotals::ByAxis comm{};  ///< of one step, without the seconds
    std::int64_t sent(Axis axis) const { return comm[static_cast<std::size_t>(axis)].bytes; }
};

/// Runs initialisation, a step, an evaluation and the snapshot of an asynchronous save on the
/// meter. `needs`: those of the backend to be used. `make`: makes communicators that transfer
/// nothing. Instead of a step with more than most_executed microbatches it runs two shorter ones,
/// from which the cost follows (long_step.h).
StepCost measure_run(const RunPlan& plan, const MeshPlace& place, const BackendMemory& needs,
                     const CommunicatorFactory& make = meter_communicators());

/// The same for every microbatch, however many there are.
StepCost execute_run(const RunPlan& plan, const MeshPlace& place, const BackendMemory& needs,
                     const CommunicatorFactory& make = meter_communicators());

/// The memory of measure_run in less time: a step of one microbatch takes as much as one of many.
MemoryPlan measure_memory(const RunPlan& plan, const MeshPlace& place, const BackendMemory& needs);

/// The part of measure_memory that lasts from step to step, in even less time: without workspace,
/// messages and snapshot.
MemoryPlan lasting_memory(const RunPlan& plan, const MeshPlace& place, const BackendMemory& needs);

/// Runs two steps on the meter and returns the trace of the second one, at the final global batch
/// size: it starts as every later step does, with updated weights still on their way.
StepTrace trace_step(const RunPlan& plan, const MeshPlace& place, const BackendMemory& needs);

/// The trace of a first step at the final global batch size: no weights are on their way to it.
StepTrace trace_first_step(const RunPlan& plan, const MeshPlace& place, const BackendMemory& needs);

/// The sizes that can differ between the ranks of a stage: the size of each parameter held; for
/// each part updated, its size, how its gradient is summed, whether the rank saves it and, with
/// Muon, the rows of the whole matrix; for each frozen part, its size and whether the rank saves
/// it. Equal for ranks whose steps cost the same.
using OwnSizes = std::vector<std::int64_t>;
/// The sizes of all ranks of a stage with the same index on tp, in the order of dp x cp.
std::vector<OwnSizes> own_sizes(const RunPlan& plan, int stage, int tp);

}  // namespace gptrain
