// adapter: the parameters that it counts, the specs that contradict it, and its initial values.
#include <cmath>

#include "planned_spec.h"
#include "spec/model_cost.h"

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

TEST_CASE("the parameters of virtual tokens and of their encoder are counted") {
    const RunPlan plain = plan_of({});
    const ModelShape& model = plain.model;
    const std::int64_t h = model.hidden;
    const RunPlan prompt = plan_of({"init_from=/model", "adapter={kind: prompt}"});
    CHECK(parameter_count(prompt.model) == parameter_count(model) + 20 * h);
    CHECK(frozen_parameters(prompt) == parameter_count(model));
    CHECK(without_adapter(prompt.model) == model);
    // They are computed once for a microbatch, not for each of its tokens.
    CHECK(flops_per_token(prompt) ==
          flops_per_token(plain) - 2.0 * static_cast<double>(parameter_count(model)));
    CHECK(flops_outside_gemms(prompt) < flops_outside_gemms(plain));
    CHECK(prompt.parameters.trains("prompt.weight"));
    CHECK_FALSE(prompt.parameters.trains("wte.weight"));
    const std::string encoder = "adapter={kind: p_tuning, virtual_tokens: 3, encoder_hidden_size: ";
    const RunPlan tuned = plan_of({"init_from=/model", encoder + "10}"});
    CHECK(parameter_count(tuned.model) - parameter_count(model) ==
          3 * h + (10 * h + 10) + (10 * 10 + 10) + (h * 10 + h));
    CHECK(frozen_parameters(tuned) == parameter_count(model));
    CHECK(tuned.parameters.trains("prompt.encoder.2.bias"));
    CHECK(plan_of({"init_from=/model", encoder + "auto}"}).model.prompt->encoder_hidden == h);
}

TEST_CASE("the keys of an adapter are those of its kind") {
    const auto message = [](const std::string& adapter) {
        return contradiction({"init_from=/model", "adapter={" + adapter + "}"});
    };
    CHECK(holds(message("kind: prompt, rank: 4"),
                "adapter.rank: adapter.kind prompt does not have this key, which is for lora"));
    CHECK(holds(message("kind: p_tuning, alpha: 4"), "adapter.alpha: adapter.kind p_tuning"));
    CHECK(holds(message("kind: prompt, dropout: 0.5"), "adapter.dropout: "));
    CHECK(holds(message("kind: prompt, targets: [attn.q]"), "adapter.targets: "));
    CHECK(holds(message("kind: lora, virtual_tokens: 4"), "adapter.virtual_tokens: "));
    CHECK(holds(message("kind: p_tuning, init: vocabulary"), "adapter.init: "));
    CHECK(holds(message("kind: prompt, encoder_hidden_size: 4"), "adapter.encoder_hidden_size: "));
    CHECK(holds(message("kind: prompt, virtual_tokens: 1024"),
                "adapter.virtual_tokens 1024 is not below training.seq_length 1024"));
    CHECK(holds(contradiction({"adapter={kind: prompt}"}), "adapter needs init_from"));
    CHECK(
        holds(message("kind: lora, targets: [mlp.gate]"),
              "adapter.targets: the model has no mlp.gate, which only model.activation swiglu or"));
}

TEST_CASE("the mask of a rank's features begins at a block of random words") {
    const std::vector<std::string> settings = {
        "init_from=/model",     "adapter={kind: lora, dropout: 0.1, targets: [mlp.proj]}",
        "parallel.tensor=2",    "model.ffn_hidden_size=36",
        "model.hidden_size=64", "model.num_attention_heads=4",
        "model.num_layers=2"};
    CHECK(holds(contradiction(settings, {.world_size = 2}),
                "adapter.dropout: with parallel.tensor 2 a rank has 18 of the inputs of mlp.proj, "
                "which is not a multiple of 4"));
    const auto adapts = [](const std::string& layer, const std::string& dropout = "0.1") {
        return contradiction(
            {"init_from=/model", "parallel.tensor=2", "model.num_attention_heads=2",
             "model.head_dim=6",
             "adapter={kind: lora, dropout: " + dropout + ", targets: [" + layer + "]}"},
            {.world_size = 2});
    };
    CHECK(holds(adapts("attn.proj"), "a rank has 6 of the inputs of attn.proj, which is no"));
    CHECK(adapts("attn.q") == "(accepted)");
    CHECK(adapts("attn.proj", "0") == "(accepted)");
}

TEST_CASE("an adapter's initial values have the variances of PEFT's") {
    const auto init_of = [](const std::vector<TensorGroup>& groups, std::string_view name) {
        for (const TensorGroup& group : groups)
            for (const ModelTensor& tensor : group.tensors)
                if (tensor.name == name) return tensor.init.std;
        FAIL("no " << name);
        return 0.0;
    };
    // Uniform between -b and b with b = 1 / sqrt(I) has the variance b^2 / 3.
    const auto drawn = [](double inputs) { return Approx(1 / std::sqrt(3 * inputs)); };
    const RunPlan lora = plan_of({"init_from=/model", all_layers});
    const auto layer = layer_tensors(lora.model, {0});
    CHECK(init_of(layer, "h.0.attn.q.lora_a") == drawn(64));
    CHECK(init_of(layer, "h.0.mlp.proj.lora_a") == drawn(256));
    CHECK(init_of(layer, "h.0.mlp.proj.lora_b") == 0);
    const RunPlan prompt = plan_of({"init_from=/model", "adapter={kind: prompt}"});
    CHECK(init_of(embedding_tensors(prompt.model), "prompt.weight") == prompt.model.init_std);
    const RunPlan tuned =
        plan_of({"init_from=/model", "adapter={kind: p_tuning, encoder_hidden_size: 10}"});
    const auto encoder = embedding_tensors(tuned.model);
    CHECK(init_of(encoder, "prompt.weight") == 1);
    CHECK(init_of(encoder, "prompt.encoder.0.weight") == drawn(64));
    CHECK(init_of(encoder, "prompt.encoder.2.weight") == drawn(10));
    CHECK(init_of(encoder, "prompt.encoder.2.bias") == 0);
}

}  // namespace gptrain::test
