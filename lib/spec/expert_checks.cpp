#include "spec/expert_checks.h"

#include <algorithm>

#include "spec/plan_checks.h"

namespace gptrain {
namespace {

void check_choice(const ExpertsSpec& experts) {
    require(experts.per_token <= experts.count, "model.experts.per_token ", experts.per_token,
            " is above model.experts.count ", experts.count, "; lower it");
    // The weight of the one expert would be 1 whatever the router says.
    require(!experts.router.normalize || experts.per_token > 1 || experts.count == 1,
            "model.experts.router.normalize: true gives the router no gradient with "
            "model.experts.per_token 1; set it to false or raise per_token");
    const auto& groups = experts.router.groups;
    if (!groups) return;
    require_multiple("model.experts.count", experts.count, "model.experts.router.groups.count",
                     groups->count);
    require(groups->keep <= groups->count, "model.experts.router.groups.keep ", groups->keep,
            " is above model.experts.router.groups.count ", groups->count, "; lower it");
    const std::int64_t kept = groups->keep * (experts.count / groups->count);
    require(experts.per_token <= kept, "model.experts.per_token ", experts.per_token,
            " is above the ", kept, " experts of the groups that model.experts.router.groups.keep ",
            groups->keep, " keeps; lower it or raise keep");
}

void check_layers(const ModelSpec& model) {
    constexpr std::string_view key = "model.experts.layers";
    const std::vector<std::int64_t>& list = model.experts->layers.list;
    for (std::size_t i = 0; i < list.size(); ++i) {
        require(list[i] < model.num_layers, key, ": there is no layer ", list[i],
                " in a model with model.num_layers ", model.num_layers, "; layers count from 0");
        require(i == 0 || list[i - 1] < list[i], key, ": ", list[i], " follows ", list[i - 1],
                "; list layers in ascending order");
    }
    require(model.expert_layers(model.num_layers) > 0, key, " leaves all of model.num_layers ",
            model.num_layers,
            " without experts; lower first_dense or every, or set model.experts to none");
}

/// Experts have no adapter, so its targets in an mlp must exist in another layer.
void check_adapter_targets(const RunSpec& spec) {
    if (!spec.adapter || spec.adapter->kind != AdapterKind::lora) return;
    const std::int64_t layers = spec.model.num_layers;
    if (spec.model.expert_layers(layers) < layers) return;
    for (const LinearName target : spec.adapter->targets) {
        const std::string_view name = name_of(target);
        require(!name.starts_with("mlp."), "adapter.targets: the model has no ", name,
                ", because all its layers have experts (model.experts), which take no adapter; "
                "remove it");
    }
}

}  // namespace

void check_experts(const RunSpec& spec) {
    if (!spec.model.experts) return;
    check_choice(*spec.model.experts);
    check_layers(spec.model);
    check_adapter_targets(spec);
    require(spec.precision.compute != Precision::fp8,
            "precision.compute: fp8 cannot be used with model.experts, whose matrices are "
            "multiplied in 16 bits; set it to bf16");
}

void check_expert_axis(const RunSpec& spec, const MeshShape& mesh) {
    const std::int64_t ranks = mesh.expert;
    if (ranks == 1) return;
    constexpr std::string_view key = "parallel.expert";
    require(spec.model.experts.has_value(), key, " ", ranks,
            " divides experts, but model.experts is none; set that, or parallel.expert to 1");
    require_multiple("model.experts.count", spec.model.experts->count, key, ranks);
    require(mesh.tensor == 1 || spec.parallel.sequence_parallel, key, " ", ranks,
            " with parallel.tensor ", mesh.tensor,
            " needs parallel.sequence_parallel: true, with which ranks of tensor have different "
            "tokens; set it, or parallel.expert or parallel.tensor to 1");
    const std::int64_t all = mesh.data * mesh.context * mesh.tensor;
    require(all % ranks == 0, key, " ", ranks,
            " does not divide parallel.data x context x tensor = ", all,
            ", the ranks with tokens of a layer; set it to a divisor, or change the mesh");
    // Whole ranks of tensor before some of context, and those before some of data.
    const auto check_neighbours = [&](std::string_view keys, std::int64_t near) {
        require(are_neighbours(ranks, near), key, " ", ranks,
                " takes neighbours, ranks of tensor first, then of context, then of data, but "
                "neither divides ",
                keys, " = ", near, " nor is a multiple of it; change one of them");
    };
    check_neighbours("parallel.tensor", mesh.tensor);
    check_neighbours("parallel.context x tensor", mesh.context * mesh.tensor);
}

}  // namespace gptrain
