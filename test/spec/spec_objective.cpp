// objective: its two forms, what it changes in the plan, and what contradicts it.
#include "planned_spec.h"
#include "spec/model_cost.h"

namespace gptrain::test {
namespace {

const std::string mlm = "objective={kind: mlm, mask_id: 3}";

}  // namespace

TEST_CASE("the word mlm stands for the section with its defaults") {
    CHECK(minimal({}).objective == Objective(CausalSpec()));
    CHECK(minimal({"objective=causal"}).objective == Objective(CausalSpec()));
    CHECK(minimal({"objective=mlm"}).objective == Objective(MlmSpec()));
    CHECK(minimal({"objective={kind: mlm}"}).objective == Objective(MlmSpec()));
    const RunSpec set = minimal({"objective.kind=mlm", "objective.mask_rate=0.3"});
    CHECK(std::get<MlmSpec>(set.objective).mask_rate == 0.3);
    CHECK(holds(usage_fault([] { minimal({"objective=mml"}); }),
                "objective: found mml, must be causal, mlm or a section of `key: value`; nearest: "
                "mlm"));
    CHECK(holds(usage_fault([] { minimal({"objective=bert"}); }), "objective: found bert"));
    CHECK(holds(usage_fault([] { minimal({"objective=[mlm]"}); }), "objective: found a list"));
    CHECK(holds(usage_fault([] { minimal({"objective={mask_id: 3}"}); }),
                "objective.kind: missing key"));
}

TEST_CASE("a masked language model has the parameters of a causal one and twice its attention") {
    const RunPlan causal = plan_of({});
    const RunPlan plan = plan_of({mlm});
    const ModelShape& model = plan.model;
    CHECK(model.bidirectional);
    CHECK(plan.local.bidirectional);
    CHECK_FALSE(causal.model.bidirectional);
    CHECK(parameter_count(model) == parameter_count(causal.model));
    // Scores and values of every pair: 12 L N D S in place of 6 L N D S.
    const auto half =
        static_cast<double>(6 * model.layers * model.heads * model.head_dim * plan.seq_length);
    CHECK(flops_per_token(plan) - flops_per_token(causal) == half);
    CHECK(holds(describe(plan),
                "mlm, bidirectional attention; chooses 15 % of the tokens, of which 80 % become "
                "the mask token (3), 10 % a random one"));
    CHECK(std::get<MlmSpec>(effective_spec(minimal({mlm}), plan).objective).mask_id == 3);
}

TEST_CASE("what contradicts an objective is named") {
    const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
        {{"objective=mlm"}, "objective.mask_id: auto takes the mask token from data.tokenizer"},
        {{"objective={kind: mlm, mask_id: 512}"},
         "objective.mask_id 512 is not below model.vocab_size 512; lower it"},
        {{mlm, "data.eod_id=3"}, "objective.mask_id 3 is the end-of-document id"},
        {{mlm, "objective.mask_share=0.9", "objective.random_share=0.2"},
         "objective.mask_share 0.9 + objective.random_share 0.2 is above 1; lower one of them"},
        {{mlm, "objective.geometric_p=0.3"}, "objective.geometric_p needs objective.masking span"},
        {{mlm, "objective.max_span=3"}, "objective.max_span needs objective.masking span"},
        {{mlm, "data.reset_at_eod=true", "data.eod_id=2"},
         "data.reset_at_eod: true cannot be used with objective mlm"},
        {{mlm, "eval_tasks={tasks: [piqa], interval: 1}", "data.tokenizer=/t.json"},
         "eval_tasks cannot measure a model with objective mlm"},
        {{mlm, "adapter={kind: prompt}", "init_from=/m"},
         "adapter.kind prompt cannot be used with objective mlm; use lora"},
        {{mlm, "model.sliding_window=8"},
         "model.sliding_window 8 cannot be used with objective mlm"},
    };
    for (const auto& [settings, part] : cases) {
        const std::string message = contradiction(settings);
        CAPTURE(part, message);
        CHECK(holds(message, part));
    }
    for (const std::vector<std::string>& settings : std::vector<std::vector<std::string>>{
             {"objective=mlm", "data.tokenizer=/t.json"},
             {mlm, "data.eod_id=2", "data.eod_mask_loss=true"},
             {mlm, "objective.mask_share=0.7", "objective.random_share=0.3"},
             {mlm, "objective.masking=span", "objective.max_span=3", "objective.geometric_p=1"}}) {
        CAPTURE(settings);
        CHECK_NOTHROW(make_plan(minimal(settings), {}));
    }
}

}  // namespace gptrain::test
