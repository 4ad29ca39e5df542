// Windows of attention in the config.json of transformers.
#pragma once

#include "interop/hf_family.h"

namespace gptrain {

constexpr std::string_view window_key = "sliding_window";
constexpr std::string_view types_key = "layer_types";

/// The window, null if no layer has one.
Json window_of(const ModelShape& model);

/// Reads the window: null is none, an absent key `otherwise`.
void read_window_size(const HfMembers& config, ModelSpec& model,
                      std::optional<std::int64_t> otherwise);

/// Reads the layers without the window.
void read_layer_types(const HfMembers& config, ModelSpec& model);

/// Takes a window away that no layer has.
void drop_unused_window(ModelSpec& model);

/// Windows except in every n-th layer, unless there are layer_types. n: the key's, or `otherwise`.
void read_pattern(const HfMembers& config, ModelSpec& model, std::string_view key,
                  std::int64_t otherwise);

/// Qwen: the window of the layers that layer_types names, or else from max_window_layers on.
void read_layer_windows(const HfMembers& config, ModelSpec& model);

/// The first layer such that it and all later ones have a window.
std::int64_t first_windowed(const ModelShape& model);

Json layer_types(const ModelShape& model);

/// Adds the window and the layer_types.
void write_layer_types(const ModelShape& model, Json& config);

}  // namespace gptrain
