// A trained model for the commands that use one: opened from a checkpoint, on one or several ranks.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/json.h"
#include "commands.h"
#include "infer/inference.h"

namespace gptrain {

struct ModelOptions {
    std::string checkpoint;
    std::string adapted;
    std::string tokenizer;
    std::vector<std::string> settings;
};

/// Adds the model or run that a command is about: its first word, or the value of --checkpoint.
/// `type` names what it may be.
void add_checkpoint(CLI::App& command, std::string& checkpoint, const std::string& description,
                    const std::string& type);
/// The options of all commands that compute with a model, the checkpoint first.
void add_model_options(CLI::App& command, ModelOptions& options);
/// --adapted alone, and --tokenizer.
void add_adapted_option(CLI::App& command, ModelOptions& options);
void add_tokenizer_option(CLI::App& command, ModelOptions& options);
/// --template, of commands that hold conversations.
CLI::Option* add_template_option(CLI::App& command, std::string& chat_template);
/// --chat-template-kwargs of them, and what it gives: an object. Error (usage) if it is none.
CLI::Option* add_template_kwargs_option(CLI::App& command, std::string& kwargs);
Json template_kwargs(const std::string& given);

/// Opens the model on all ranks and runs `work` there.
ExitCode run_with_model(const ModelOptions& options,
                        const std::function<void(const InferenceRun&)>& work);

}  // namespace gptrain
