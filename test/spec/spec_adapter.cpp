// adapter: what it counts, and what contradicts it.
#include "planned_spec.h"
#include "spec/model_tensors.h"

namespace gptrain::test {
namespace {

const std::string all_layers =
    "adapter={kind: lora, rank: 3, targets: [attn.q, attn.k, attn.v, attn.proj, mlp.fc, mlp.proj]}";

}  // namespace

TEST_CASE("an adapter's parameters are counted, and the model's are frozen") {
    const RunPlan plain = plan_of({});
    const RunPlan adapted = plan_of({"init_from=/model", all_layers});
    const ModelShape& model = plain.model;
    const std::int64_t h = model.hidden;
    const std::int64_t kv = model.groups * model.head_dim;
    // Outputs and inputs of q, k and v, proj, fc, proj.
    const std::int64_t widths =
        (h + h) + 2 * (kv + h) + (h + h) + (model.ffn + h) + (h + model.ffn);
    CHECK(parameter_count(adapted.model) - parameter_count(model) == model.layers * 3 * widths);
    CHECK(without_adapter(adapted.model) == model);
    CHECK(frozen_parameters(adapted) == parameter_count(model));
    CHECK(adapted.model.lora->scale == 16.0 / 3);
    CHECK(adapted.parameters.trains("h.0.attn.q.lora_a"));
    CHECK(adapted.parameters.trains("h.1.mlp.proj.lora_b"));
    CHECK_FALSE(adapted.parameters.trains("h.0.attn.q.weight"));
    CHECK_FALSE(adapted.parameters.trains("ln_f.weight"));
    // Only the adapter's own weight gradients are computed.
    CHECK(flops_per_token(adapted) == flops_per_token(plain) -
                                          2.0 * static_cast<double>(parameter_count(model)) +
                                          6.0 * static_cast<double>(model.layers * 3 * widths));
}

TEST_CASE("the mask of a rank's features begins at a block of random words") {
    const std::vector<std::string> settings = {
        "init_from=/model",     "adapter={kind: lora, dropout: 0.1, targets: [mlp.proj]}",
        "parallel.tensor=2",    "model.ffn_hidden_size=36",
        "model.hidden_size=64", "model.num_attention_heads=4",
        "model.num_layers=2"};
    CHECK(holds(contradiction(settings, {.world_size = 2}),
                "adapter.dropout: with parallel.tensor 2 a rank has 18 of the inputs of mlp.proj, "
                "which is no multiple of 4"));
}

}  // namespace gptrain::test
