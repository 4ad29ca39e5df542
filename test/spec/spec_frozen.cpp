// training.frozen: which parameters the patterns name, and what they may not.
#include "planned_spec.h"
#include "spec/model_cost.h"

namespace gptrain::test {

TEST_CASE("a star in a pattern stands for any text") {
    CHECK(name_matches("wte.weight", "wte.weight"));
    CHECK_FALSE(name_matches("wte.weight", "wte.weights"));
    CHECK_FALSE(name_matches("wte.weigh", "wte.weight"));
    CHECK_FALSE(name_matches("wte.weight", "wte_weight"));
    CHECK(name_matches("*", "wte.weight"));
    CHECK(name_matches("*", ""));
    CHECK(name_matches("", ""));
    CHECK_FALSE(name_matches("", "a"));
    CHECK_FALSE(name_matches("a", ""));
    CHECK(name_matches("h.1.*", "h.1.attn.q.weight"));
    CHECK_FALSE(name_matches("h.1.*", "h.11.attn.q.weight"));
    CHECK(name_matches("h.1*", "h.11.attn.q.weight"));
    CHECK(name_matches("h.*.mlp.*", "h.3.mlp.fc.bias"));
    CHECK_FALSE(name_matches("h.*.mlp.*", "h.3.attn.proj.weight"));
    CHECK(name_matches("*.bias", "h.3.mlp.fc.bias"));
    CHECK(name_matches("**p**", "h.3.mlp.fc.bias"));
    // The first place where the text after a star fits need not be the right one.
    CHECK(name_matches("*aab", "aaaab"));
    CHECK(name_matches("a*b*bc", "abbbabc"));
    CHECK_FALSE(name_matches("a*b*bc", "abbbab"));
}

TEST_CASE("frozen parameters are counted, and their gradients cost nothing") {
    const RunPlan all = plan_of({});
    const std::int64_t h = all.model.hidden;
    const RunPlan some = plan_of({"training.frozen=[wpe.weight, \"h.0.ln_1.*\"]"});
    CHECK(frozen_parameters(all) == 0);
    CHECK(frozen_parameters(some) == all.model.max_positions * h + 2 * h);
    CHECK(layer_parameters(some)[0].frozen == 2 * h);
    CHECK(layer_parameters(some)[1].frozen == 0);
    CHECK(flops_per_token(all) - flops_per_token(some) ==
          2.0 * static_cast<double>(frozen_parameters(some)));
    CHECK_FALSE(some.parameters.trains("wpe.weight"));
    CHECK(some.parameters.trains("wte.weight"));
    const std::string description = describe(some);
    CHECK(holds(description, "are frozen"));
    CHECK_FALSE(holds(describe(all), "frozen"));
}

TEST_CASE("patterns of frozen parameters must fit the model") {
    CHECK(contradiction({"training.frozen=[wte.weight, h.7.ln_1.weight]"}) ==
          "training.frozen: no tensor of the model matches 'h.7.ln_1.weight'; tensors are named "
          "such as wte.weight or h.0.attn.q.weight, and * stands for any text");
    CHECK(contradiction({"training.frozen=[h.0.attn.k.weight]"}) ==
          "training.frozen: h.0.attn.k.weight would be frozen, but not h.0.attn.q.weight, which "
          "the same GEMM reads; freeze both or neither");
    CHECK(contradiction({"training.frozen=[\"*.mlp.fc.bias\"]", "model.activation=swiglu"}) ==
          "training.frozen: h.0.mlp.fc.bias would be frozen, but not h.0.mlp.gate.bias, which the "
          "same GEMM reads; freeze both or neither");
    CHECK(contradiction({"training.frozen=[\"*\"]"}) ==
          "training.frozen: leaves nothing to train; remove a pattern");
    // A tied head has no separate tensor.
    CHECK(holds(contradiction({"training.frozen=[head.weight]"}), "'head.weight'"));
    CHECK(plan_of({"training.frozen=[head.weight]", "model.tie_embeddings=false"})
              .parameters.frozen.size() == 1);
}

TEST_CASE("Muon updates the matrices of the blocks that are trained") {
    const ParameterRules rules = {.frozen = {"h.0.*"}, .muon = true};
    CHECK(rules.update("h.1.attn.q.weight", 2) == Update::muon);
    CHECK(rules.update("h.1.attn.q.bias", 1) == Update::adamw);
    CHECK(rules.update("h.1.ln_1.weight", 1) == Update::adamw);
    CHECK(rules.update("wte.weight", 2) == Update::adamw);
    CHECK(rules.update("h.0.attn.q.weight", 2) == Update::frozen);
    CHECK(ParameterRules{}.update("h.1.attn.q.weight", 2) == Update::adamw);
}

TEST_CASE("a frozen head leaves no weight gradient to the end of a step") {
    const std::vector<std::string> deep = {"model.num_layers=16", "parallel.pipeline=8",
                                           "training.global_batch_size=64",
                                           "model.tie_embeddings=false"};
    const PlanTarget target = {8, false, true};
    REQUIRE(plan_of(deep, target).deferred_heads > 0);
    std::vector<std::string> frozen = deep;
    frozen.emplace_back("training.frozen=[head.weight]");
    CHECK(plan_of(frozen, target).deferred_heads == 0);
}

}  // namespace gptrain::test
