// Writes a trained model for other programs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "infer/exported_weights.h"

namespace gptrain {

struct ExportOptions {
    std::filesystem::path output;
    DType dtype = DType::f32;  ///< fp32, bf16 or fp16
    std::int64_t max_shard_bytes = 0;
    /// A folder whose tokenizer files replace the checkpoint's; empty: none.
    std::filesystem::path tokenizer_from;
};

struct ExportedModel {
    /// Empty if the model does not fit in memory, or for an adapter alone.
    std::optional<LogitError> error;
    bool has_tokenizer = false;
    std::int64_t max_positions = 0;  ///< of the checkpoint's model
    std::int64_t context = 0;        ///< of the export, the longest text for which both are equal
};

/// Writes the checkpoint's model, with an adapter merged into it, as a Hugging Face model
/// folder, under a temporary name until it is complete, durable and read back: config.json must
/// describe the model, every element must be the checkpoint's, rounded to the dtype, and in fp32
/// the logits must be the same. On one rank, on a backend that computes in host memory. Holds two
/// tensors at a time, besides the model that computes logits.
/// Error (usage): the output exists, no class of transformers has the model, or a weight does not
/// fit in fp16.
ExportedModel export_hf(const InferenceRun& run, const ExportOptions& options);

/// Writes an adapter alone, as PEFT has it, under a temporary name until it is complete, durable
/// and read back (export_peft.h). The logits are not computed. Error (usage): the output exists.
ExportedModel export_peft(const InferenceRun& run, const ExportOptions& options);

/// The same as one GGUF file for llama.cpp, whose keys are read back in place of config.json. Error
/// (usage) also for features that llama.cpp lacks.
/// max_shard_bytes is not used.
ExportedModel export_gguf(const InferenceRun& run, const ExportOptions& options);

}  // namespace gptrain
