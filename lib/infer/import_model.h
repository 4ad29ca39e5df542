// Turns a model of another program into a checkpoint.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace gptrain {

struct ImportedModel {
    std::int64_t parameters = 0;
    std::int64_t bytes = 0;       ///< of the checkpoint
    std::string tokenizer_fault;  ///< why gptrain cannot use the tokenizer; empty if it can
};

/// Writes the model in `from`, a Hugging Face model folder, as the checkpoint `to`,
/// with its tokenizer files unchanged. Reads a few blocks of weights at a time. Error (usage): `to`
/// exists; (bad_input): a file is faulty, or no run spec expresses the model.
ImportedModel import_model(const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace gptrain
