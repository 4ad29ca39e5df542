// The options and the problems that the kinds of `gptrain plan` have in common.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "hardware.h"
#include "memory_headroom.h"
#include "planner/mesh_cost.h"
#include "search/search.h"
#include "search/space.h"
#include "spec/spec_rules.h"

namespace gptrain {

struct PlanOptions {
    std::string config;
    std::vector<std::string> settings;
    std::string world_size;
    std::string hardware;
    std::string calibrate;
    std::string device;  ///< that --calibrate measures
    std::vector<std::string> fixed;
    std::string global_batch;
    std::string memory_headroom = std::string(default_headroom);
    std::optional<double> max_days;
    std::string write;
    std::string json;
    std::string picture;
    bool inference = false;
    std::int64_t prompt = 0;  ///< tokens
    std::int64_t tokens = 0;
    std::string batch;
    std::optional<double> max_latency;  ///< seconds
    std::int64_t measure = 0;           ///< candidates; 0: none
    std::string learn;
    std::string model;  ///< folder of a model to fine-tune, instead of a config
    std::string host_memory;
    std::int64_t seq_length = 0;  ///< 0: the usual
};

/// The spec and the hardware of a question. A search context refers to it.
struct PlanProblem {
    RunSpec spec;
    HardwareProfile hardware;
    bool cuda = false;
    double headroom = 0;  ///< share of the memory to leave free
    BackendMemory needs;
};

/// `cores`: of this machine, for the profile `cpu`.
PlanProblem read_problem(const PlanOptions& options, std::int64_t cores = own_cores());

SearchContext context_of(const PlanProblem& problem, std::int64_t ranks);

/// A question about training: the spec has a global batch size.
struct TrainingProblem {
    PlanProblem problem;
    SearchSpace space;
};

TrainingProblem read_training_problem(const PlanOptions& options, std::int64_t cores = own_cores());

/// Writes the user's spec, changed only where the settings found differ (--write).
void write_best(const PlanOptions& options, const Found& best);

/// The space of the spec with the keys of --fix limited.
SearchSpace limited_space(const PlanOptions& options, const RunSpec& spec);

/// "512", "512,768" or "512..2048", which doubles. Else an Error (usage) that names `option`.
std::vector<std::int64_t> parse_sizes(std::string_view option, const std::string& word,
                                      const IntRange& range);

/// Numbers of ranks that can be asked about.
constexpr IntRange rank_counts = {1, max_planned_ranks};

/// Error (usage) if --write names a file that exists, or is in no folder.
void check_written_spec(const PlanOptions& options);

/// The time and memory of answers.
ExitCode plan_inference(const PlanOptions& options);

/// The fastest by estimate, measured on the ranks started.
ExitCode plan_measure(const PlanOptions& options);

}  // namespace gptrain
