// Runs a microbatch twice. Silent faults of arithmetic or memory show as a difference, on one rank
// too.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/mpi_session.h"
#include "engine/engine.h"
#include "train/injected_faults.h"

namespace gptrain {

/// A checksum of what a rank has seen of a microbatch that ran alone (Executor::run_alone).
struct SeenSum {
    Executor::Seen what;
    std::int64_t sum;
};

/// Where two runs of a microbatch differ on a rank for the first time.
enum class Difference {
    none,
    input,   ///< in what it had from others
    result,  ///< in what it computed: a fault is here, or on a rank of tp, cp or experts
};
Difference first_difference(const std::vector<SeenSum>& first, const std::vector<SeenSum>& second);

/// The ranks whose results differ although they had the same inputs; if there are none, those whose
/// inputs differ. In ascending order.
std::vector<std::int64_t> ranks_at_fault(const std::vector<Difference>& ranks);

/// Runs the first microbatch of a step twice, and describes the ranks at fault; empty if there are
/// none. All ranks call it before they issue that step, and get the same text. `faults` may be
/// null.
std::string differing_replays(Engine& engine, const InjectedFaults* faults, const StepBatch& batch,
                              std::int64_t expert_slices, const MpiSession& ranks,
                              const MeshShape& mesh);

}  // namespace gptrain
