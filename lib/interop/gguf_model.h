// The description of a model in a GGUF file for llama.cpp: its architecture and settings.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "interop/gguf_file.h"
#include "interop/hf_classes.h"

namespace gptrain {

/// Fails if llama.cpp cannot compute the model: Error (usage) that names the key.
void check_gguf_model(const ModelShape& model);

/// The longest text on which llama.cpp agrees with the model: where it has not the model's windows
/// (gguf_families.h), a text may not exceed them.
std::int64_t gguf_context(const ModelShape& model);

/// Adds the architecture and its settings.
void add_gguf_model(const ModelShape& model, GgufMetadata& to);

/// The tensor of gguf_rope_factors.
constexpr std::string_view gguf_rope_factors_name = "rope_freqs.weight";

/// Error (bug) unless a file that was written has the model's architecture and settings; it names
/// the key, with both values.
void check_gguf_settings(const GgufFile& file, const ModelShape& model);

/// The divisors [D/2] of RoPE's frequencies that stand for rope_scaling llama3, which are a tensor
/// in the file; empty without it.
std::vector<float> gguf_rope_factors(const ModelShape& model);

}  // namespace gptrain
