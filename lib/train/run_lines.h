// The lines that a run prints when it starts and when it ends.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/training_data.h"
#include "spec/run_plan.h"

namespace gptrain {

/// Facts that neither the plan nor the data contain.
struct StartSummary {
    std::string_view device;        ///< of a rank, "CPU with 2 threads"
    std::int64_t memory_bytes = 0;  ///< planned for the rank that needs the most
    bool evaluates = false;         ///< the spec asks for evaluations
    std::filesystem::path output_dir;
};

/// One line each on model, data, steps, machine and output.
std::array<std::string, 5> start_lines(const RunPlan& plan, const TrainingData& data,
                                       const StartSummary& summary);

/// The line about training data that replaces the checkpoint's: where each source starts.
std::string change_line(const TrainingData& data);

/// Why a run that was started again after its last step has nothing to do, and what would make it
/// train on. `idle`: changed keys that only further steps would obey.
std::string nothing_left(std::int64_t step, std::int64_t steps,
                         const std::vector<std::string>& idle);

/// True for a key of the spec that has an effect in training steps alone.
bool only_trains(std::string_view key);

struct Evaluation {
    std::int64_t step = 0;
    double val_loss = 0;
};

/// The state of a run when it ends.
struct EndSummary {
    std::int64_t step = 0;                      ///< the last step
    std::optional<double> mean_loss = {};       ///< as in metrics.jsonl
    std::optional<Evaluation> evaluation = {};  ///< the last one of this start
    std::optional<double> tokens_per_s = {};    ///< over the steps of this start
    double seconds = 0;                         ///< running time over all starts
    double goodput = 0;                         ///< useful fraction of it, 0 to 1
    std::filesystem::path checkpoint;
};

/// "mean_loss 3.1234, val_loss 3.2012, 12345 tok/s, 1 h 02 min (goodput 93.1%), checkpoint DIR".
/// Leaves out what is unknown. An evaluation of an earlier step is shown with its step.
std::string to_text(const EndSummary& summary);

}  // namespace gptrain
