#include "spec/adapter_plan.h"

#include <algorithm>

#include "spec/plan_checks.h"

namespace gptrain {

std::optional<Lora> lora_of(const RunSpec& spec) {
    if (!spec.adapter) return std::nullopt;
    const AdapterSpec& adapter = *spec.adapter;
    require(spec.init_from.has_value(),
            "adapter needs init_from, the model that it adapts; set init_from");
    require(spec.training.frozen.empty(),
            "training.frozen cannot be used with adapter, which trains only its own parameters; "
            "remove one of them");
    for (auto target = adapter.targets.begin(); target != adapter.targets.end(); ++target) {
        require(std::count(adapter.targets.begin(), target, *target) == 0, "adapter.targets lists ",
                name_of(*target), " twice; remove one");
        require(*target != LinearName::mlp_gate || gated(spec.model.activation),
                "adapter.targets: the model has no ", name_of(*target),
                ", which only model.activation swiglu has; remove it");
    }
    return Lora{.rank = adapter.rank,
                .scale = adapter.alpha / static_cast<double>(adapter.rank),
                .dropout = adapter.dropout,
                .targets = adapter.targets};
}

void check_adapter(const RunPlan& plan) {
    constexpr std::int64_t unit = 4;  // features that share a block of random words
    const auto& lora = plan.model.lora;
    if (!lora || lora->dropout == 0 || plan.mesh.tensor == 1) return;
    const auto check = [&](LinearName layer, std::string_view what, std::int64_t size) {
        require(!lora->adapts(layer) || size % unit == 0, "adapter.dropout: with parallel.tensor ",
                plan.mesh.tensor, " a rank has ", size, " of ", what, ", which is no multiple of ",
                unit, "; lower parallel.tensor or set adapter.dropout to 0");
    };
    check(LinearName::attn_proj, "the inputs of attn.proj", plan.local.heads * plan.local.head_dim);
    check(LinearName::mlp_proj, "the inputs of mlp.proj", plan.local.ffn);
}

}  // namespace gptrain
