// What a run reads: tokenizer and token data, opened and checked before anything is computed.
#pragma once

#include <filesystem>
#include <string>

#include "base/json.h"
#include "data/training_data.h"
#include "spec/run_plan.h"

namespace gptrain {

struct RunInputs {
    RunSpec spec;  ///< with the end of document that the tokenizer gives
    RunPlan plan;  ///< with the number of samples that the data give
    TrainingData data;
    std::string tokenizer;  ///< the bytes of its model, for checkpoints; empty without one
    Json identity;          ///< what must be equal to resume (identity.h)
};

/// `cache`: folder of the index files. Error (usage) where tokenizer and model, or tokenizer and
/// token files do not fit together; Error (bad_input) for a faulty tokenizer or data set.
RunInputs open_inputs(const RunSpec& spec, const RunPlan& plan, const std::filesystem::path& cache);

}  // namespace gptrain
