// What makes a run the same run: the rules of resuming.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "data/training_data.h"
#include "spec/run_plan.h"

namespace gptrain {

/// What must be equal to resume: model (dropout aside), tokenizer, data sources with fingerprints,
/// order and weights, split, seed, seq_length, optimizer name and the number of samples that fixes
/// their order. `tokenizer` is the fingerprint of the tokenizer's file, empty without one.
Json run_identity(const RunSpec& spec, const RunPlan& plan, const TrainingData& data,
                  const std::string& tokenizer);

/// Error (usage) that names the first difference with both values, or returns.
void check_identity(const Json& saved, const Json& current, const std::string& checkpoint);

/// A line "key: old -> new" for each key in which two specs, as YAML, differ.
std::vector<std::string> changed_settings(const std::string& before, const std::string& now);

}  // namespace gptrain
