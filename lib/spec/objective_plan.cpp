#include "spec/objective_plan.h"

#include "spec/plan_checks.h"

namespace gptrain {
namespace {

void check_mask_id(const RunSpec& spec, const std::optional<std::int64_t>& id) {
    require(
        id || spec.data.tokenizer,
        "objective.mask_id: auto takes the mask token from data.tokenizer; set data.tokenizer or "
        "give an id");
    if (!id) return;
    require(*id < spec.model.vocab_size, "objective.mask_id ", *id,
            " is not below model.vocab_size ", spec.model.vocab_size,
            "; lower it or raise model.vocab_size");
    require(id != spec.data.eod_id, "objective.mask_id ", *id,
            " is the end-of-document id (data.eod_id) as well; give another one");
}

void check(const RunSpec& spec, const MlmSpec& mlm) {
    const MlmSpec plain;
    require(mlm.mask_share + mlm.random_share <= 1, "objective.mask_share ", mlm.mask_share,
            " + objective.random_share ", mlm.random_share, " is above 1; lower one of them");
    const bool spans = mlm.masking == Masking::span;
    require(spans || mlm.geometric_p == plain.geometric_p,
            "objective.geometric_p needs objective.masking span; set that or remove the key");
    require(spans || mlm.max_span == plain.max_span,
            "objective.max_span needs objective.masking span; set that or remove the key");
    check_mask_id(spec, mlm.mask_id);
    require(
        !spec.eval_tasks,
        "eval_tasks cannot measure a model with objective mlm, which gives no text a likelihood; "
        "remove it");
    require(!spec.adapter || spec.adapter->kind == AdapterKind::lora, "adapter.kind ",
            spec.adapter ? name_of(spec.adapter->kind) : "",
            " cannot be used with objective mlm; use lora");
    require(
        !spec.data.reset_at_eod.value_or(false),
        "data.reset_at_eod: true cannot be used with objective mlm, in which every token sees the "
        "whole sequence; remove it");
    require(
        !spec.model.sliding_window, "model.sliding_window ", spec.model.sliding_window.value_or(0),
        " cannot be used with objective mlm, in which every token sees the whole sequence; set it "
        "to none");
}

void check(const RunSpec& /*spec*/, const CausalSpec& /*causal*/) {}

}  // namespace

void check_objective(const RunSpec& spec) {
    std::visit([&](const auto& objective) { check(spec, objective); }, spec.objective);
}

}  // namespace gptrain
