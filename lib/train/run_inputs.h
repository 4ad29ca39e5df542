// What a run reads: tokenizer and token data, opened and checked before anything is computed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "base/json.h"
#include "data/training_data.h"
#include "spec/run_plan.h"

namespace gptrain {

/// A run's tokenizer; all empty where it has none.
struct TokenizerInput {
    std::string bytes;                          ///< of the model, for checkpoints
    std::optional<ExpectedTokenizer> expected;  ///< as the token files should name it
    std::optional<std::int32_t> eos_id;
};

/// Looks for every file that the spec names and reads the tokenizer; for a run that has not written
/// anything yet. Error (bad_input) that names the key of a missing file or a faulty tokenizer;
/// Error (usage) where tokenizer and model do not fit together.
TokenizerInput find_inputs(const RunSpec& spec, const RunPlan& plan);

struct RunInputs {
    RunSpec spec;  ///< with the end of document that the tokenizer gives
    RunPlan plan;  ///< with the number of samples that the data give
    TrainingData data;
    std::string tokenizer;  ///< the bytes of its model, for checkpoints; empty without one
    Json identity;          ///< what must be equal to resume (identity.h)
};

/// `cache`: folder of the index files. Error (usage) where tokenizer and token files do not fit
/// together; Error (bad_input) for a faulty data set.
RunInputs open_inputs(const RunSpec& spec, const RunPlan& plan, const TokenizerInput& tokenizer,
                      const std::filesystem::path& cache);

}  // namespace gptrain
