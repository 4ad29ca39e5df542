// A trained model as `generate` and `eval` use it: from a checkpoint, alone or as several ranks.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "commands.h"
#include "infer/inference.h"

namespace gptrain {

struct ModelOptions {
    std::string checkpoint;
    std::string tokenizer;
    std::vector<std::string> settings;
};

void add_model_options(CLI::App& command, ModelOptions& options);

/// Does `work` on all ranks with what it takes to run the model.
ExitCode run_with_model(const ModelOptions& options,
                        const std::function<void(const InferenceRun&)>& work);

}  // namespace gptrain
