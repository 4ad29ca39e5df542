#include "spec/small_state.h"

#include "base/checked.h"
#include "base/dynamic8.h"
#include "spec/model_tensors.h"
#include "spec/plan_checks.h"

namespace gptrain {
namespace {

void check_main_weights(const RunPlan& plan) {
    if (plan.optimizer.main_weights == DType::f32) return;
    const bool bf16 = plan.compute == DType::bf16 && !plan.fp8;
    require(bf16, "precision.main_weights: bf16 needs precision.compute bf16, but that is ",
            plan.fp8 ? "fp8" : name_of(plan.compute),
            "; set precision.compute to bf16 or remove precision.main_weights");
    require(!plan.parameters.muon,
            "precision.main_weights: bf16 cannot be used with optimizer.name muon, which updates "
            "fp32 weights; set optimizer.name to adamw or remove precision.main_weights");
}

/// The part of a tensor on a rank of tp, or of those that divide experts.
struct LocalPart {
    std::int64_t elements = 0;
    /// Elements of the whole tensor in a row before those of another rank; 0: it is not divided.
    std::int64_t run = 0;
    std::string_view key = {};  ///< of the number of ranks
    std::int64_t ranks = 1;
};

LocalPart local_part(const ModelTensor& tensor, const MeshShape& mesh) {
    const std::int64_t all = tensor.elements();
    if (tensor.experts > 0 && mesh.expert > 1) {
        const std::int64_t run = all / mesh.expert;
        return {run, run, "parallel.expert", mesh.expert};
    }
    std::int64_t ranks = mesh.tensor;
    if (tensor.split == TensorSplit::kv_rows) ranks /= mesh.kv;
    if (ranks == 1 || tensor.split == TensorSplit::none) return {.elements = all};
    const bool columns = tensor.split == TensorSplit::columns;
    const std::int64_t length = div_ceil(columns ? tensor.columns : tensor.rows, ranks);
    const std::int64_t of_expert = length * (columns ? tensor.rows : tensor.columns);
    return {std::max<std::int64_t>(tensor.experts, 1) * of_expert, columns ? length : of_expert,
            "parallel.tensor", mesh.tensor};
}

/// The moments of a group's tensors follow each other as the tensors do.
void check_blocks(const RunPlan& plan, const TensorGroup& group) {
    constexpr std::string_view remedy = "; set optimizer.state to bf16 or fp32";
    std::int64_t before = 0;
    for (const ModelTensor& tensor : group.tensors) {
        const LocalPart part = local_part(tensor, plan.mesh);
        const bool coded = has_small_moments(tensor.columns > 0, tensor.elements()) &&
                           plan.parameters.update(tensor.name, tensor.dims()) == Update::adamw;
        require(!coded || part.run % moment_block == 0, "optimizer.state: 8bit: ", part.key, " ",
                part.ranks, " cuts ", tensor.name, " after each ", part.run,
                " elements, which is not a multiple of a block of ", moment_block,
                "; lower it, or set optimizer.state to bf16 or fp32");
        require(!coded || before % moment_block == 0, "optimizer.state: 8bit: ", tensor.name,
                " begins ", before, " elements behind the first tensor of ", group.name,
                " on a rank, which is not a multiple of a block of ", moment_block, remedy);
        before += part.elements;
    }
}

}  // namespace

void check_small_state(const RunPlan& plan) {
    check_main_weights(plan);
    if (plan.optimizer.state != MomentFormat::eight_bit) return;
    for (const TensorGroup& group : all_tensors(plan.model))
        check_blocks(plan, group);
}

}  // namespace gptrain
