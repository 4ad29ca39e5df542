// The classes of Hugging Face's transformers that compute what one of our models does.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "interop/hf_family.h"
#include "spec/run_plan.h"

namespace gptrain {

/// All of them. A model that several compute is exported as the first.
std::span<const HfFamily> hf_families();

const HfFamily& family_of(HfClass hf_class);

/// The class with this model_type; null if there is none.
const HfFamily* find_family(std::string_view model_type);

/// The class's word for an activation function; empty if it cannot have it.
std::string_view activation_word(const HfFamily& family, Activation activation);

/// The activation function that a word of transformers stands for, in an mlp with or without a
/// gate; none if we have it not.
std::optional<Activation> activation_of(std::string_view word, bool gated);

/// Replaces the keys of a run spec in a message by those of config.json.
std::string with_hf_keys(std::string message, HfClass hf_class);

/// True for a class with experts whose layers have no other mlp: its files have no width of one.
bool only_experts(HfClass hf_class);

/// True if tokens of some layer see at most model.sliding_window keys.
bool has_windows(const ModelShape& model);

/// The layers without a window.
std::vector<std::int64_t> unwindowed_layers(const ModelShape& model);

/// The factor of embeddings in classes that scale them.
double hf_embedding_scale(std::int64_t hidden);

/// The class that computes the same as the model. If there is none: Error (usage) that names the
/// keys.
HfClass hf_class_of(const ModelShape& model);

}  // namespace gptrain
