// What a run says of itself where it starts and where it ends.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "data/training_data.h"
#include "spec/run_plan.h"

namespace gptrain {

/// What the plan and the data do not say.
struct StartFacts {
    std::string_view device;        ///< of a rank, "CPU with 2 threads"
    std::int64_t memory_bytes = 0;  ///< planned for the rank that needs the most
    bool evaluates = false;         ///< an evaluation was asked for
    std::filesystem::path output_dir;
};

/// Model, data, steps, machine and output, a line each.
std::array<std::string, 5> start_lines(const RunPlan& plan, const TrainingData& data,
                                       const StartFacts& facts);

struct Evaluation {
    std::int64_t step = 0;
    double val_loss = 0;
};

/// Where a run stands when it ends.
struct EndFacts {
    std::int64_t step = 0;                      ///< the last
    std::optional<double> mean_loss = {};       ///< as in metrics.jsonl
    std::optional<Evaluation> evaluation = {};  ///< the last of this start
    std::optional<double> tokens_per_s = {};    ///< in the steps of this start
    double seconds = 0;                         ///< that the run has run, over all its starts
    double goodput = 0;                         ///< the useful part of them, 0 to 1
    std::filesystem::path checkpoint;
};

/// "mean_loss 3.1234, val_loss 3.2012, 12345 tok/s, 1 h 02 min (goodput 93.1%), checkpoint DIR".
/// What is not known is left out. An evaluation of an earlier step says which.
std::string end_words(const EndFacts& facts);

}  // namespace gptrain
