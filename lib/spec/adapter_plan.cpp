#include "spec/adapter_plan.h"

#include <algorithm>

#include "spec/plan_checks.h"

namespace gptrain {

namespace {

/// Keys that another kind of adapter has must be absent, which their defaults stand for.
void require_own_keys(const AdapterSpec& adapter) {
    const AdapterSpec none;
    const auto check = [&](std::string_view key, bool is_default, std::string_view kinds) {
        require(is_default, "adapter.", key, ": adapter.kind ", name_of(adapter.kind),
                " does not have this key, which is for ", kinds, "; remove it");
    };
    if (adapter.kind != AdapterKind::lora) {
        check("rank", adapter.rank == none.rank, "lora");
        check("alpha", adapter.alpha == none.alpha, "lora");
        check("dropout", adapter.dropout == none.dropout, "lora");
        check("targets", adapter.targets == none.targets, "lora");
    } else {
        check("virtual_tokens", adapter.virtual_tokens == none.virtual_tokens,
              "prompt and p_tuning");
    }
    if (adapter.kind != AdapterKind::prompt) check("init", adapter.init == none.init, "prompt");
    if (adapter.kind != AdapterKind::p_tuning)
        check("encoder_hidden_size", !adapter.encoder_hidden_size, "p_tuning");
}

void check_keys(const RunSpec& spec) {
    require(spec.init_from.has_value(),
            "adapter needs init_from, the model that it adapts; set init_from");
    require(spec.training.frozen.empty(),
            "training.frozen cannot be used with adapter, which trains only its own parameters; "
            "remove one of them");
    require_own_keys(*spec.adapter);
}

}  // namespace

std::optional<SoftPrompt> soft_prompt_of(const RunSpec& spec) {
    if (!spec.adapter || spec.adapter->kind == AdapterKind::lora) return std::nullopt;
    check_keys(spec);
    const AdapterSpec& adapter = *spec.adapter;
    require(adapter.virtual_tokens < spec.training.seq_length, "adapter.virtual_tokens ",
            adapter.virtual_tokens, " is not below training.seq_length ", spec.training.seq_length,
            ", which counts them; lower it or raise training.seq_length");
    const bool encodes = adapter.kind == AdapterKind::p_tuning;
    return SoftPrompt{
        .tokens = adapter.virtual_tokens,
        .init = adapter.init,
        .encoder_hidden =
            encodes ? adapter.encoder_hidden_size.value_or(spec.model.hidden_size) : 0};
}

std::optional<Lora> lora_of(const RunSpec& spec) {
    if (!spec.adapter || spec.adapter->kind != AdapterKind::lora) return std::nullopt;
    check_keys(spec);
    const AdapterSpec& adapter = *spec.adapter;
    for (auto target = adapter.targets.begin(); target != adapter.targets.end(); ++target) {
        require(std::count(adapter.targets.begin(), target, *target) == 0, "adapter.targets lists ",
                name_of(*target), " twice; remove one");
        require(*target != LinearName::mlp_gate || gated(spec.model.activation),
                "adapter.targets: the model has no ", name_of(*target),
                ", which only model.activation swiglu or clamped_swiglu has; remove it");
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
                plan.mesh.tensor, " a rank has ", size, " of ", what,
                ", which is not a multiple of ", unit,
                "; lower parallel.tensor or set adapter.dropout to 0");
    };
    check(LinearName::attn_proj, "the inputs of attn.proj", plan.local.heads * plan.local.head_dim);
    check(LinearName::mlp_proj, "the inputs of mlp.proj", plan.local.ffn);
}

}  // namespace gptrain
