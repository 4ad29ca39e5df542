// The rules of resuming: what makes a run the same run.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "data/training_data.h"
#include "spec/run_plan.h"

namespace gptrain {

/// Identify the files that a run's identity refers to.
struct Fingerprints {
    std::string tokenizer;  ///< of the file, empty without one
    std::string adapted;    ///< of the model that an adapter adapts, empty without one
};

/// The values that must be equal to resume: the model (except dropout, model.experts.load,
/// model.experts.upcycling_noise and the numbers of model.experts.balance, and
/// max_position_embeddings with rope), the tokenizer, the data sources with their fingerprints,
/// order and weights, the split, the seed, seq_length, the objective and its mask token, the frozen
/// parameters, the adapter (except dropout), the optimizer's name, and the number of samples, which
/// fixes their order. After a change of the data, also how far each source had been read before.
/// Path and tokens of each source are there for messages; they may differ, and older checkpoints
/// lack them.
Json run_identity(const RunSpec& spec, const RunPlan& plan, const TrainingData& data,
                  const Fingerprints& fingerprints);

/// Throws an Error (usage) that describes the first difference, if there is one. With `go_on`, the
/// training sources, the number and the length of samples and the validation sources may differ,
/// but there must be validation sources in both or in neither.
void check_identity(const Json& saved, const Json& current, const std::string& checkpoint,
                    OnChange on_change = OnChange::refuse);

/// The value of a key, such as "precision.compute", in a spec given as YAML; empty if it is absent.
std::string setting_of(const std::string& yaml, const std::string& key);

/// A key that differs between two specs.
struct ChangedSetting {
    std::string key;  ///< "optimizer.lr"
    std::string before;
    std::string now;
};
/// The keys in which two specs, given as YAML, differ.
std::vector<ChangedSetting> changed_settings(const std::string& before, const std::string& now);

}  // namespace gptrain
