// Which parameters a run trains, and what updates each of them: a function of a tensor's global
// name and shape. The layout of the flat buffers, the gradient buckets, the optimizer, checkpoints,
// the meter and the planner all follow it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace gptrain {

/// The optimizer that updates a parameter.
enum class Update {
    frozen,  ///< nothing: it has no gradient, no optimizer state and no fp32 copy
    adamw,
    muon,  ///< Muon, which works on whole matrices
};

struct ParameterRules {
    /// Patterns of the names of frozen parameters (name_matches).
    std::vector<std::string> frozen;

    /// Trains only the parameters of an adapter.
    bool adapter = false;

    /// Muon updates the matrices of the blocks except routers; AdamW everything else.
    bool muon = false;

    /// `dims`: 1, 2, or 3 for a matrix of each expert.
    Update update(std::string_view name, int dims) const;
    bool trains(std::string_view name) const;
};

// The two matrices that LoRA adds to the linear layer NAME are NAME.lora_a and NAME.lora_b.
constexpr std::string_view lora_a_suffix = ".lora_a";
constexpr std::string_view lora_b_suffix = ".lora_b";
// The end of the name of a matrix that makes a router's logits.
constexpr std::string_view router_suffix = "router.weight";
// All parameters of virtual tokens.
constexpr std::string_view prompt_prefix = "prompt.";

/// True for the name of a parameter of an adapter.
bool is_adapter_parameter(std::string_view name);

/// True if the pattern matches the whole name. `*` stands for any text, none included; every other
/// character for itself.
bool name_matches(std::string_view pattern, std::string_view name);

}  // namespace gptrain
