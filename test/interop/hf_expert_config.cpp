// The experts of a config.json.
#include <functional>
#include <string>
#include <vector>

#include "catch.h"
#include "interop/hf_config.h"
#include "support/temp_folder.h"

namespace gptrain {
namespace {

using Layers = std::vector<std::int64_t>;

/// A minimal config.json of a small model of a class with experts.
Json config_of(const std::string& type, const Json& members = Json::object()) {
    Json config = {
        {"model_type", type},       {"hidden_size", 16},           {"intermediate_size", 24},
        {"num_hidden_layers", 4},   {"num_attention_heads", 4},    {"vocab_size", 40},
        {"num_experts_per_tok", 2}, {"moe_intermediate_size", 12}, {"max_position_embeddings", 32}};
    if (type == "mixtral") config["num_local_experts"] = 8;
    if (type == "qwen2_moe" || type == "qwen3_moe") config["num_experts"] = 8;
    if (type == "qwen2_moe") config["shared_expert_intermediate_size"] = 20;
    if (type == "glm4_moe")
        config.update({{"n_routed_experts", 8}, {"partial_rotary_factor", 1.0}});
    config.update(members);
    return config;
}

ModelSpec read(const std::string& type, const Json& members = Json::object()) {
    return read_hf_config(config_of(type, members), "config.json").model;
}

BalanceSpec none_but(std::optional<double> bias_rate, double aux_weight) {
    return {
        .bias_rate = bias_rate, .aux_weight = aux_weight, .sequence_aux_weight = 0, .z_weight = 0};
}

TEST_CASE("a Mixtral has the same experts in all layers") {
    const ModelSpec model = read("mixtral");
    CHECK(model.experts ==
          ExpertsSpec{
              .count = 8, .per_token = 2, .ffn_hidden_size = 24, .balance = none_but({}, 0.001)});
    CHECK(model.norm_eps == 1e-5);
    CHECK(model.rope_theta == 1e6);
    CHECK(!model.bias);
    CHECK(!model.sliding_window);
    CHECK(read("mixtral", {{"sliding_window", 8}}).sliding_window == 8);
}

TEST_CASE("a Qwen2-MoE has a gated shared expert and biases of q, k and v") {
    const ModelSpec model = read("qwen2_moe");
    CHECK(model.experts == ExpertsSpec{.count = 8,
                                       .per_token = 2,
                                       .ffn_hidden_size = 12,
                                       .shared = SharedExpertSpec{20, true},
                                       .router = {.normalize = false},
                                       .balance = none_but({}, 0.001)});
    CHECK(model.qkv_bias == true);
    CHECK(model.qk_norm == QkNorm::none);
    CHECK(model.norm_eps == 1e-6);
    CHECK(!read("qwen2_moe", {{"qkv_bias", false}}).qkv_bias.value_or(false));
    CHECK(read("qwen2_moe", {{"norm_topk_prob", true}}).experts->router.normalize);
}

TEST_CASE("a Qwen3-MoE has norms of q and k") {
    const ModelSpec model = read("qwen3_moe", {{"router_aux_loss_coef", 0.02}});
    CHECK(model.experts == ExpertsSpec{.count = 8,
                                       .per_token = 2,
                                       .ffn_hidden_size = 12,
                                       .router = {.normalize = false},
                                       .balance = none_but({}, 0.02)});
    CHECK(model.qk_norm == QkNorm::head);
    CHECK(model.head_dim == 4);
    // As transformers 5.24 writes it.
    Json renamed = config_of("qwen3_moe", {{"num_local_experts", 6}});
    renamed.erase("num_experts");
    CHECK(read_hf_config(renamed, "config.json").model.experts->count == 6);
    const Json window = {{"use_sliding_window", true}, {"sliding_window", 8}};
    CHECK(read("qwen3_moe", window).sliding_window == 8);
    CHECK(!read("qwen3_moe", {{"sliding_window", 8}}).sliding_window);
}

TEST_CASE("a GLM-4-MoE chooses by sigmoid scores with a bias") {
    const ModelSpec model = read("glm4_moe");
    CHECK(model.experts == ExpertsSpec{.count = 8,
                                       .per_token = 2,
                                       .ffn_hidden_size = 12,
                                       .shared = SharedExpertSpec{12, false},
                                       .layers = {.first_dense = 1},
                                       .router = {.score = RouterScore::sigmoid},
                                       .balance = none_but(1e-3, 0)});
    CHECK(model.qk_norm == QkNorm::none);
    CHECK(model.qkv_bias.value_or(model.bias) == false);
    const ModelSpec other = read("glm4_moe", {{"n_shared_experts", 3},
                                              {"n_group", 4},
                                              {"topk_group", 2},
                                              {"norm_topk_prob", false},
                                              {"routed_scaling_factor", 2.5},
                                              {"first_k_dense_replace", 0},
                                              {"use_qk_norm", true},
                                              {"attention_bias", true}});
    CHECK(other.experts->shared == SharedExpertSpec{36, false});
    CHECK(other.experts->router == RouterSpec{.score = RouterScore::sigmoid,
                                              .normalize = false,
                                              .scale = 2.5,
                                              .groups = RouterGroupsSpec{4, 2}});
    CHECK(other.experts->layers == ExpertLayers{});
    CHECK(other.qk_norm == QkNorm::head);
    CHECK(other.qkv_bias == true);
}

TEST_CASE("the layers of a Qwen with experts are a rule where there is one, else a list") {
    const auto layers = [](std::int64_t step, const Layers& dense) {
        return read("qwen3_moe", {{"decoder_sparse_step", step}, {"mlp_only_layers", dense}})
            .experts->layers;
    };
    CHECK(layers(1, {}) == ExpertLayers{});
    CHECK(layers(2, {}) == ExpertLayers{.every = 2});
    CHECK(layers(1, {1, 0}) == ExpertLayers{.first_dense = 2});
    CHECK(layers(2, {0, 1, 2}) == ExpertLayers{.first_dense = 2, .every = 2});
    CHECK(layers(2, {0, 2, 9}) == ExpertLayers{.every = 2});
    CHECK(layers(1, {1}) == ExpertLayers{.list = {0, 2, 3}});
    CHECK(layers(2, {3}) == ExpertLayers{.list = {1}});
}

TEST_CASE("experts that no key of the run spec expresses are errors that name the key") {
    const auto refused = [](const std::string& type, const Json& members) {
        return test::message_of(ExitCode::bad_input, [&] { read(type, members); });
    };
    CHECK(refused("glm4_moe", {{"partial_rotary_factor", 1.5}}) ==
          "config.json: 'partial_rotary_factor' is 1.5; it must be at most 1");
    CHECK(test::contains(refused("glm4_moe", {{"first_k_dense_replace", 4}}),
                         "'first_k_dense_replace' is 4; no layer has experts"));
    CHECK(test::contains(refused("glm4_moe", {{"first_k_dense_replace", -1}}),
                         "'first_k_dense_replace' is -1; it must be at least 0"));
    CHECK(
        test::contains(refused("glm4_moe", {{"num_hidden_layers", 1}}),
                       "'first_k_dense_replace' is missing, which means 1; no layer has experts"));
    CHECK(test::contains(refused("glm4_moe", {{"topk_group", 2}}), "'topk_group' is 2"));
    CHECK(
        test::contains(refused("glm4_moe", {{"n_shared_experts", 0}}), "'n_shared_experts' is 0"));
    CHECK(test::contains(refused("mixtral", {{"router_jitter_noise", 0.1}}),
                         "'router_jitter_noise' is 0.1"));
    CHECK(test::contains(refused("mixtral", {{"num_local_experts", nullptr}}),
                         "'num_local_experts'"));
    CHECK(read("qwen3_moe", {{"attention_bias", true}}).attention_bias == true);
    CHECK(test::contains(refused("qwen3_moe", {{"decoder_sparse_step", 5}}),
                         "'decoder_sparse_step' is 5; no layer has experts"));
    CHECK(test::contains(refused("qwen3_moe", {{"mlp_only_layers", {0, 1, 2, 3}}}),
                         "'mlp_only_layers' is [0,1,2,3]; no layer has experts"));
    CHECK(test::contains(refused("qwen2_moe", {{"use_sliding_window", true}}),
                         "'use_sliding_window' is true; gptrain then needs layer_types"));
}

/// The model of a config.json, changed.
ModelShape shape_with(const std::string& type, const Json& members,
                      const std::function<void(ModelShape&)>& change) {
    ModelShape model = shape_of(read(type, members));
    change(model);
    return model;
}

TEST_CASE("a config.json with experts that was written is read back the same") {
    const auto same = [](const std::string& type, const Json& members) {
        const HfConfig config = read_hf_config(config_of(type, members), "config.json");
        const ModelShape model = shape_of(config.model);
        REQUIRE(hf_class_of(model) == config.hf_class);
        const HfConfig back =
            read_hf_config(hf_config(model, config.ids, DType::f32), "config.json");
        CHECK(back.hf_class == config.hf_class);
        CHECK(shape_of(back.model) == model);
    };
    same("mixtral", {{"router_aux_loss_coef", 0.02}, {"sliding_window", 8}});
    same("qwen2_moe",
         {{"qkv_bias", false},
          {"use_sliding_window", true},
          {"sliding_window", 8},
          {"layer_types",
           {"full_attention", "sliding_attention", "full_attention", "sliding_attention"}}});
    same("qwen3_moe", {{"use_sliding_window", true}, {"sliding_window", 8}, {"head_dim", 8}});
    for (const Layers& dense : {Layers{}, Layers{0}, Layers{2}, Layers{1, 3}, Layers{0, 1}})
        for (const int step : {1, 2})
            if (step == 1 || dense != Layers{1, 3})
                same("qwen3_moe", {{"decoder_sparse_step", step}, {"mlp_only_layers", dense}});
    same("glm4_moe", {{"attention_bias", true}, {"use_qk_norm", true}, {"n_shared_experts", 2}});
    same("glm4_moe", {{"n_group", 4}, {"topk_group", 2}, {"routed_scaling_factor", 2.5}});
}

TEST_CASE("a model with experts of no class of transformers is an error that names the key") {
    const auto refused = [](const std::string& type,
                            const std::function<void(ModelShape&)>& change) {
        return test::message_of(ExitCode::usage,
                                [&] { hf_class_of(shape_with(type, Json::object(), change)); });
    };
    const std::string no_class = "no class of Hugging Face's transformers has experts with ";
    const std::string softmax = " and model.experts.router.score softmax";
    const std::string sigmoid = " and model.experts.router.score sigmoid";
    CHECK(refused("qwen3_moe", [](ModelShape& model) { model.bias = true; }) ==
          no_class + "model.bias true");
    CHECK(refused("qwen3_moe", [](ModelShape& model) { model.experts->bias = true; }) ==
          no_class + "model.experts.bias true");
    CHECK(refused("qwen3_moe", [](ModelShape& model) {
              model.activation = Activation::clamped_swiglu;
          }) == no_class + "model.activation clamped_swiglu");
    CHECK(refused("qwen3_moe", [](ModelShape& model) {
              model.experts->router.logit_bias = true;
          }) == no_class + "model.experts.router.logit_bias true");
    CHECK(refused("qwen3_moe", [](ModelShape& model) {
              model.normalization = Normalization::layernorm;
          }) == no_class + "model.normalization layernorm");
    CHECK(refused("qwen3_moe", [](ModelShape& model) { model.experts->router.scale = 2; }) ==
          no_class + "model.experts.router.scale 2" + softmax);
    CHECK(refused("qwen3_moe", [](ModelShape& model) { model.experts->balance.bias_rate = 0; }) ==
          no_class + "a bias of the choice (model.experts.balance.bias_rate is not none)" +
              softmax);
    CHECK(refused("qwen3_moe", [](ModelShape& model) {
              model.experts->router.score = RouterScore::sigmoid;
          }) == no_class + "no model.experts.shared" + sigmoid);
    CHECK(refused("qwen2_moe", [](ModelShape& model) { model.experts->shared->gate = false; }) ==
          no_class + "model.experts.shared.gate false" + softmax);
    CHECK(refused("mixtral", [](ModelShape& model) { model.experts->router.normalize = false; }) ==
          no_class +
              "model.experts.router.normalize false, without model.experts.shared and "
              "model.qk_norm" +
              softmax);
    CHECK(refused("mixtral", [](ModelShape& model) { model.experts->layers.first_dense = 1; }) ==
          no_class +
              "model.experts.layers that leave out a layer, without model.experts.shared and "
              "model.qk_norm" +
              softmax);
    CHECK(refused("glm4_moe",
                  [](ModelShape& model) { model.experts->shared->ffn_hidden_size = 20; }) ==
          no_class +
              "model.experts.shared.ffn_hidden_size 20, no multiple of "
              "model.experts.ffn_hidden_size 12," +
              sigmoid);
    CHECK(refused("glm4_moe",
                  [](ModelShape& model) {
                      model.experts->layers.list = {0, 2};
                  }) == no_class +
                            "model.experts.layers that leave out a layer after one with experts" +
                            sigmoid);
    CHECK(refused("glm4_moe", [](ModelShape& model) {
              model.experts->router.groups = RouterGroupsSpec{8, 2};
          }) == no_class + "model.experts.router.groups of a single expert" + sigmoid);
    CHECK(refused("glm4_moe", [](ModelShape& model) { model.sliding_window = 8; }) ==
          no_class + "model.sliding_window 8" + sigmoid);
    CHECK(refused("glm4_moe", [](ModelShape& model) {
              model.experts->layers.list = {2, 3};
          }).empty());
}

}  // namespace
}  // namespace gptrain
