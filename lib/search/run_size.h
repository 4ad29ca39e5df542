// The size of a new run: the largest model that its tokens, its time and the memory of its machine
// allow, and the settings with which it trains fastest there.
#pragma once

#include <cstdint>
#include <optional>

#include "search/search.h"
#include "search/size_rules.h"

namespace gptrain {

/// The limits on the size of a run.
struct RunBudget {
    std::int64_t data_tokens = 0;        ///< of one pass over the training data
    std::optional<double> hours;         ///< of training; at most one of these two
    std::optional<std::int64_t> tokens;  ///< to train on

    /// Tokens to train on at most: `tokens`, else good_passes over the data.
    std::int64_t max_tokens() const;
};

/// Where it runs. All arguments outlive it.
struct RunMachine {
    PlanTarget target;
    const BackendMemory& needs;
    const HardwareProfile& hardware;
    double capacity = 0;  ///< bytes for one rank, with the reserve for libraries
};

/// Why the model is no larger.
enum class SizeLimit { tokens, time, memory, largest };

struct SizedRun {
    RunSpec spec;
    std::int64_t parameters = 0;
    std::int64_t active = 0;  ///< of the same model without experts
    std::int64_t tokens = 0;  ///< that it trains on
    StepEstimate estimate;
    SizeLimit limit = SizeLimit::largest;
};

/// Fills in model, training, mesh, learning rate and intervals of `base`, which has the data and
/// model.vocab_size, that of its tokenizer. The model is the largest of model_sizes that
///  - has at most 1 / tokens_per_parameter parameters per token of the maximum,
///  - fits into the memory with some mesh, microbatch and recomputation, and
///  - is estimated to see tokens_per_parameter tokens for each parameter in `hours`;
/// the smallest, if tokens or time are too few for any. If base.model.experts is set, layers have
/// these experts, together as wide as the layer that they replace; tokens, batch and learning rate
/// are those of the model without them. It trains on the maximum of tokens, or on
/// those that it sees in `hours`, if these are fewer. On a CPU a step has a microbatch for each of
/// eight times the ranks, if it has as many samples. Error (usage) if not even the smallest fits
/// into the memory.
SizedRun size_run(const RunSpec& base, const RunBudget& budget, const RunMachine& machine);

}  // namespace gptrain
