#include "spec/quantised_checks.h"

#include "base/nf4.h"
#include "spec/model_tensors.h"
#include "spec/plan_checks.h"
#include "spec/run_spec.h"

namespace gptrain {
namespace {

/// The rows and columns of a tensor that tp leaves on a rank.
struct MatrixPart {
    std::int64_t rows = 0;
    std::int64_t columns = 0;
    MatrixPart(const ModelTensor& tensor, const MeshShape& mesh)
        : rows(tensor.rows), columns(tensor.columns) {
        // Ranks that divide the experts have theirs whole.
        if (tensor.experts > 0 && mesh.expert > 1) return;
        if (tensor.split == TensorSplit::rows) rows /= mesh.tensor;
        if (tensor.split == TensorSplit::kv_rows) rows /= mesh.tensor / mesh.kv;
        if (tensor.split == TensorSplit::columns) columns /= mesh.tensor;
    }
    bool whole_blocks(const ModelTensor& of) const {
        return (columns < of.columns ? columns : rows * columns) % nf4_block == 0;
    }
};

void check_matrix(const ModelTensor& tensor, const MeshShape& mesh) {
    const std::string name = text("h.N", tensor.name.substr(tensor.name.find('.', 2)));
    require(tensor.rows * tensor.columns % nf4_block == 0, "precision.frozen: nf4 keeps blocks of ",
            nf4_block, " elements, and the ", tensor.rows, " x ", tensor.columns, " of ", name,
            " are no multiple of that; set precision.frozen to int8, or change model.hidden_size");
    const MatrixPart part(tensor, mesh);
    require(part.whole_blocks(tensor), "precision.frozen: nf4 keeps blocks of ", nf4_block,
            " elements, but parallel.tensor ", mesh.tensor, " cuts ", name, " [", tensor.rows, ", ",
            tensor.columns, "] into parts of ", part.rows, " x ", part.columns,
            ", inside blocks; lower parallel.tensor or set precision.frozen to int8");
}

}  // namespace

void check_frozen_format(const RunSpec& spec) {
    const FrozenWeights format = spec.precision.frozen;
    if (format == FrozenWeights::compute || spec.adapter) return;
    const std::string message =
        text("precision.frozen: ", name_of(format),
             " is for the model of an adapter, but this run has none, so all its matrices stay as "
             "they are; set adapter or remove precision.frozen");
    fail(ExitCode::usage, located(spec.locations.of(message), message));
}

void check_quantised(const RunSpec& spec, const RunPlan& plan) {
    const std::string_view format = name_of(spec.precision.frozen);
    require(!plan.nf4_double || plan.nf4_frozen,
            "precision.nf4_double needs precision.frozen: nf4; set that or remove nf4_double");
    require(!plan.fp8 || !plan.quantised(), "precision.frozen: ", format,
            " cannot be used with precision.compute fp8, which stores weights in its own format; "
            "set precision.compute to bf16 or remove precision.frozen");
    require(!plan.quantised() || spec.training.frozen.empty(), "precision.frozen: ", format,
            " cannot be used with training.frozen, because checkpoints must hold frozen tensors "
            "exactly; remove one of them");
}

std::string int8_warning(const RunPlan& plan) {
    if (!plan.int8_frozen) return "";
    std::string cut;
    const bool dense = plan.local.expert_layers(plan.local.layers) < plan.local.layers;
    const auto check = [&](std::string_view key, std::int64_t inputs) {
        if (inputs % int8_block == 0) return;
        cut += text(cut.empty() ? "" : " and ", key, " ", inputs * plan.mesh.tensor);
    };
    if (plan.mesh.tensor > 1) {
        check("model.num_attention_heads x head_dim", plan.local.heads * plan.local.head_dim);
        if (dense) check("model.ffn_hidden_size", plan.local.ffn);
        const auto& experts = plan.local.experts;
        if (experts && plan.mesh.expert == 1)
            check("model.experts.ffn_hidden_size", experts->ffn_hidden_size);
        if (experts && experts->shared)
            check("model.experts.shared.ffn_hidden_size", experts->shared->ffn_hidden_size);
    }
    if (cut.empty()) return "";
    return text("precision.frozen: int8: ", cut, " / parallel.tensor ", plan.mesh.tensor,
                " is not a multiple of ", int8_block,
                ", so weights round differently than on one rank and losses differ slightly; "
                "lower parallel.tensor to avoid that");
}

void check_nf4_blocks(const RunPlan& plan) {
    for (std::int64_t layer = 0; layer < plan.model.layers; ++layer) {
        for (const TensorGroup& group : layer_tensors(plan.model, {layer})) {
            if (!group.linear) continue;
            for (const ModelTensor& tensor : group.tensors)
                check_matrix(tensor, plan.mesh);
        }
    }
}

}  // namespace gptrain
