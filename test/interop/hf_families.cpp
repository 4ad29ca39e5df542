// Families of transformers as rows of data: their configs, layouts of tensors, and what is refused.
#include <cmath>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "catch.h"
#include "interop/export_hf.h"
#include "interop/hf_folder.h"
#include "support/temp_folder.h"

namespace gptrain {
namespace {

const std::filesystem::path models = std::filesystem::path(GPTRAIN_TEST_DATA) / "models";

Json config_of(const std::string& name) {
    return parse_json(test::contents(models / name / "config.json"), "config.json");
}

/// The model of a family whose config.json has these members besides.
HfConfig read(const std::string& name, const Json& members = Json::object()) {
    Json config = config_of(name);
    config.update(members);
    return read_hf_config(config, "config.json");
}

std::string refusal(const std::string& name, const Json& members) {
    return test::message_of(ExitCode::bad_input, [&] { read(name, members); });
}

struct Stored {
    std::vector<std::int64_t> shape;
    std::vector<float> values;
};

Stored stored(const std::string& name, const std::string& tensor) {
    const SafetensorsFile file(models / name / "model.safetensors");
    const SafetensorsEntry& entry = file.tensors().find(tensor)->second;
    const auto bytes = file.bytes_of(entry);
    std::vector<float> values(bytes.size() / sizeof(float));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return {entry.shape, std::move(values)};
}

std::vector<float> ours(const HfFolder& folder, const std::string& tensor) {
    for (const Shard& shard : whole_tensors(folder.shape())) {
        if (shard.name != tensor) continue;
        std::vector<float> values(static_cast<std::size_t>(shard.elements()));
        folder.read(shard, values);
        return values;
    }
    FAIL("no tensor " << tensor);
    return {};
}

TEST_CASE("a model of every family is exported as its class, with its settings") {
    for (const auto& [name, hf_class] : {std::pair{"olmo2", HfClass::olmo2},
                                         {"olmoe", HfClass::olmoe},
                                         {"phi3", HfClass::phi3},
                                         {"phi", HfClass::phi},
                                         {"gpt_neox", HfClass::gpt_neox},
                                         {"gpt_neox_sequential", HfClass::gpt_neox},
                                         {"gemma", HfClass::gemma},
                                         {"gemma2", HfClass::gemma2},
                                         {"gemma3", HfClass::gemma3},
                                         {"smollm3", HfClass::smollm3},
                                         {"gpt_oss", HfClass::gpt_oss},
                                         {"nemotron", HfClass::nemotron},
                                         {"falcon", HfClass::falcon},
                                         {"falcon_one_norm", HfClass::falcon},
                                         {"bloom", HfClass::bloom},
                                         {"gptj", HfClass::gptj},
                                         {"opt", HfClass::opt},
                                         {"glm", HfClass::glm},
                                         {"glm4", HfClass::glm4},
                                         {"cohere", HfClass::cohere},
                                         {"cohere2", HfClass::cohere2},
                                         {"gpt_bigcode", HfClass::gpt_bigcode},
                                         {"stablelm_parallel", HfClass::stablelm},
                                         {"glm4_moe_partial", HfClass::glm4_moe},
                                         {"llama_attention_biases", HfClass::llama},
                                         {"llama_geglu", HfClass::llama}}) {
        INFO(name);
        const HfConfig config = read(name);
        CHECK(config.hf_class == hf_class);
        const ModelShape model = shape_of(config.model);
        REQUIRE(hf_class_of(model) == hf_class);
        const HfConfig again =
            read_hf_config(hf_config(model, config.ids, DType::f32), "config.json");
        CHECK(shape_of(again.model) == model);
    }
}

TEST_CASE("what a family adds becomes keys of the run spec") {
    const ModelSpec gemma3 = read("gemma3").model;
    CHECK(gemma3.norm_placement == NormPlacement::both);
    CHECK(gemma3.qk_norm == QkNorm::head);
    CHECK(gemma3.rope_theta == 5000);
    CHECK(gemma3.window_rope_theta == 100);
    CHECK(gemma3.rope_scaling->factor == 4);
    CHECK(gemma3.activation == Activation::geglu);
    CHECK(gemma3.embedding_scale == std::sqrt(24.0));
    const ModelSpec gemma2 = read("gemma2").model;
    CHECK(gemma2.attention_softcap == 2);
    CHECK(gemma2.logit_softcap == 3);
    CHECK(gemma2.full_attention_layers == std::vector<std::int64_t>{1});
    const ModelSpec olmo2 = read("olmo2").model;
    CHECK(olmo2.norm_placement == NormPlacement::after);
    CHECK(olmo2.qk_norm == QkNorm::all);
    CHECK(read("smollm3").model.unrotated_layers == std::vector<std::int64_t>{1});
    CHECK(read("cohere2").model.unrotated_layers == std::vector<std::int64_t>{1});
    CHECK(read("phi3").model.rotary_fraction == 0.75);
    CHECK(read("gptj").model.rotary_fraction == 0.5);
    CHECK(read("phi").model.parallel_residual == ParallelResidual::one_norm);
    CHECK(read("gpt_neox").model.parallel_residual == ParallelResidual::two_norms);
    CHECK(read("falcon").model.num_query_groups == 2);
    CHECK(read("gpt_bigcode").model.num_query_groups == 1);
    const ModelSpec bloom = read("bloom").model;
    CHECK(bloom.position_embedding == PositionEmbedding::alibi);
    CHECK(bloom.embedding_norm);
    const ModelSpec gptj = read("gptj").model;
    CHECK((gptj.bias && gptj.head_bias && gptj.qkv_bias == false && gptj.attention_bias == false));
    const ModelSpec gpt_oss = read("gpt_oss").model;
    CHECK((gpt_oss.attention_sinks && gpt_oss.experts->bias && gpt_oss.experts->router.logit_bias));
    CHECK(gpt_oss.activation == Activation::clamped_swiglu);
    CHECK(read("nemotron").model.norm_bias == true);
    CHECK(read("opt").model.norm_eps == 1e-5);
}

TEST_CASE("layers that config.json leaves open follow the pattern of their family") {
    using Layers = std::vector<std::int64_t>;
    const auto full = [](const std::string& name, std::int64_t layers,
                         const Json& more = Json::object()) {
        Json members = {{"num_hidden_layers", layers}, {"layer_types", nullptr}};
        members.update(more);
        return read(name, members).model;
    };
    CHECK(full("gemma2", 4).full_attention_layers == Layers{1, 3});
    CHECK(full("gpt_oss", 3).full_attention_layers == Layers{1});
    CHECK(full("gemma3", 7).full_attention_layers == Layers{5});
    CHECK(full("gemma3", 4, {{"sliding_window_pattern", 3}}).full_attention_layers == Layers{2});
    CHECK(full("cohere2", 5).unrotated_layers == Layers{3});
    CHECK(full("smollm3", 5, {{"no_rope_layers", nullptr}}).unrotated_layers == Layers{3});
    CHECK(full("gemma2", 4, {{"sliding_window", nullptr}}).full_attention_layers.empty());
}

TEST_CASE("rows of fused and interleaved tensors are found") {
    SECTION("a GPT-NeoX stores q, k and v of each head together") {
        const HfFolder folder(models / "gpt_neox");
        const Stored fused =
            stored("gpt_neox", "gpt_neox.layers.1.attention.query_key_value.weight");
        const std::vector<float> k = ours(folder, "h.1.attn.k.weight");
        const std::int64_t dim = 8;
        const std::int64_t columns = 32;
        for (std::int64_t head = 0; head < 4; ++head)
            for (std::int64_t i = 0; i < dim * columns; ++i)
                REQUIRE(k[static_cast<std::size_t>(head * dim * columns + i)] ==
                        fused.values[static_cast<std::size_t>((3 * head + 1) * dim * columns + i)]);
    }
    SECTION("a Falcon stores the heads of a group with their k and v") {
        const HfFolder folder(models / "falcon");
        const Stored fused =
            stored("falcon", "transformer.h.0.self_attention.query_key_value.weight");
        const std::vector<float> q = ours(folder, "h.0.attn.q.weight");
        const std::vector<float> v = ours(folder, "h.0.attn.v.weight");
        const std::int64_t head = 8 * 32;
        for (std::int64_t i = 0; i < head; ++i) {
            // Head 3 is the second one of group 1.
            REQUIRE(q[static_cast<std::size_t>(3 * head + i)] ==
                    fused.values[static_cast<std::size_t>(5 * head + i)]);
            REQUIRE(v[static_cast<std::size_t>(head + i)] ==
                    fused.values[static_cast<std::size_t>(7 * head + i)]);
        }
    }
    SECTION("a GLM-4 stores the gate before the other half, and rotates neighbours") {
        const HfFolder folder(models / "glm4");
        const Stored fused = stored("glm4", "model.layers.0.mlp.gate_up_proj.weight");
        const std::vector<float> fc = ours(folder, "h.0.mlp.fc.weight");
        CHECK(std::memcmp(fc.data(), fused.values.data() + fc.size(), fc.size() * sizeof(float)) ==
              0);
        const Stored k = stored("glm4", "model.layers.0.self_attn.k_proj.weight");
        const std::vector<float> own = ours(folder, "h.0.attn.k.weight");
        // Of a head's 8 dims 4 are rotated, as pairs (0, 1) and (2, 3).
        const std::vector<std::size_t> order = {0, 2, 1, 3, 4, 5, 6, 7};
        for (std::size_t row = 0; row < 16; ++row)
            CHECK(own[row * 24] == k.values[(row / 8 * 8 + order[row % 8]) * 24]);
    }
    SECTION("a gpt-oss stores experts as [in, out], gate and other half in turns") {
        const HfFolder folder(models / "gpt_oss");
        const Stored inner = stored("gpt_oss", "model.layers.1.mlp.experts.gate_up_proj");
        const Stored bias = stored("gpt_oss", "model.layers.1.mlp.experts.gate_up_proj_bias");
        const std::vector<float> fc = ours(folder, "h.1.experts.fc.weight");
        const std::vector<float> gate_bias = ours(folder, "h.1.experts.gate.bias");
        // [expert, row, column] of ours
        const auto at = [&](std::size_t e, std::size_t row, std::size_t column) {
            return fc[(e * 12 + row) * 24 + column];
        };
        for (std::size_t e = 0; e < 4; ++e)
            for (std::size_t row = 0; row < 12; ++row) {
                CHECK(at(e, row, 5) == inner.values[(e * 24 + 5) * 24 + 2 * row + 1]);
                CHECK(gate_bias[e * 12 + row] == bias.values[e * 24 + 2 * row]);
            }
    }
    SECTION("norms of a Gemma 2 hold what is added to 1, and an OPT skips two positions") {
        const HfFolder gemma(models / "gemma2");
        const Stored norm = stored("gemma2", "model.layers.0.pre_feedforward_layernorm.weight");
        CHECK(ours(gemma, "h.0.ln_2.weight")[3] == norm.values[3] + 1);
        const HfFolder opt(models / "opt");
        const Stored positions = stored("opt", "model.decoder.embed_positions.weight");
        CHECK(positions.shape[0] == 34);
        CHECK(ours(opt, "wpe.weight")[5] == positions.values[2 * 24 + 5]);
    }
    SECTION("the factor of a Cohere's logits is in the last norm") {
        const HfFolder folder(models / "cohere_scaled");
        CHECK(ours(folder, "ln_f.weight")[7] ==
              0.25F * stored("cohere_scaled", "model.norm.weight").values[7]);
    }
}

TEST_CASE("settings of families that no key expresses are errors that name key and value") {
    const auto check = [](const std::string& name, const Json& members,
                          const std::string& expected) {
        const std::string message = refusal(name, members);
        INFO(name << ": " << message);
        CHECK(message.find('\n') == message.npos);
        CHECK(test::contains(message, "config.json: "));
        CHECK(test::contains(message, expected));
    };
    check("gemma2", {{"query_pre_attn_scalar", 144}},
          "'query_pre_attn_scalar' is 144; gptrain divides scores by the square root of head_dim, "
          "which is 8");
    check("gemma2", {{"attn_logit_softcapping", -1}}, "'attn_logit_softcapping' is -1");
    check("gemma2", {{"attn_logit_softcapping", "50"}}, "'attn_logit_softcapping' must be");
    check("gemma3", {{"use_bidirectional_attention", true}},
          "'use_bidirectional_attention' is true");
    check("gemma3", {{"hidden_activation", "gelu"}}, "'hidden_activation' is \"gelu\"");
    check("gemma3",
          {{"rope_parameters",
            {{"full_attention", {{"rope_theta", 1e6}}},
             {"sliding_attention", {{"rope_type", "linear"}, {"factor", 2.0}}}}}},
          "gptrain stretches the rotations of all layers alike, or only of those without a window");
    check("gemma3", {{"rope_parameters", {{"full_attention", 4}}}}, "must be a JSON object");
    check("phi3", {{"rope_scaling", {{"rope_type", "longrope"}}}}, "'rope_type' is \"longrope\"");
    check("phi", {{"qk_layernorm", true}}, "'qk_layernorm' is true");
    check("gptj", {{"rotary_dim", nullptr}}, "'rotary_dim' is null");
    check("gptj", {{"rotary_dim", 64}}, "'rotary_dim' is 64; a head has only 8 dims");
    check("falcon", {{"alibi", true}}, "'alibi' is true; gptrain supports only false");
    check("falcon", {{"num_ln_in_parallel_attn", 3}}, "'num_ln_in_parallel_attn' is 3");
    check("falcon", {{"parallel_attn", false}}, "'parallel_attn' is false");
    check("bloom", {{"apply_residual_connection_post_layernorm", true}},
          "'apply_residual_connection_post_layernorm' is true");
    check("opt", {{"do_layer_norm_before", false}}, "'do_layer_norm_before' is false");
    check("opt", {{"word_embed_proj_dim", 12}},
          "'word_embed_proj_dim' is 12; gptrain supports only 24");
    check("cohere", {{"use_qk_norm", true}}, "'use_qk_norm' is true");
    check("cohere", {{"logit_scale", 0.8}},
          "'logit_scale' is 0.8; gptrain has powers of 2, from 2^-20 to 2^19");
    check("cohere2", {{"layer_types", {"sliding_attention"}}},
          "'layer_types' is [\"sliding_attention\"]; it needs an entry for each layer");
    check("smollm3", {{"no_rope_layers", {1}}},
          "'no_rope_layers' is [1]; it needs an entry for each layer");
    check("smollm3", {{"no_rope_layers", "all"}}, "'no_rope_layers' must be");
    check("olmoe", {{"clip_qkv", 8.0}}, "'clip_qkv' is 8.0; gptrain has no limit of q, k and v");
    check("gpt_oss", {{"swiglu_limit", 5.0}}, "'swiglu_limit' is 5.0; gptrain supports only 7.0");
    check("gpt_oss", {{"rope_parameters", nullptr}},
          "has neither 'rope_parameters' nor 'rope_scaling'");
    check("gpt_bigcode", {{"scale_attn_weights", false}}, "'scale_attn_weights' is false");
    check("nemotron", {{"hidden_act", "silu"}}, "'hidden_act' is \"silu\"");
}

/// A model whose config.json has other members.
std::filesystem::path with_config(const test::TempFolder& to, const std::string& name,
                                  const Json& members) {
    std::filesystem::copy(models / name, to / name);
    Json config = config_of(name);
    config.update(members);
    test::fill(to / name / "config.json", to_document(config));
    return to / name;
}

TEST_CASE("faults of a family's sizes and tensors are one line that names them") {
    const auto fault = [](const std::string& name, const Json& members) {
        const test::TempFolder folder;
        const std::filesystem::path path = with_config(folder, name, members);
        std::string message = test::message_of(ExitCode::bad_input, [&] { HfFolder opened(path); });
        CHECK(message.find('\n') == message.npos);
        return message;
    };
    CHECK(test::contains(fault("phi3", {{"num_key_value_heads", 4}}),
                         "tensor model.layers.0.self_attn.qkv_proj.weight has shape [64, 32], but "
                         "with config.json it must have [96, 32]"));
    CHECK(test::contains(fault("glm4", {{"intermediate_size", 16}}),
                         "mlp.gate_up_proj.weight has shape [64, 24], but with config.json it must "
                         "have [32, 24]"));
    CHECK(test::contains(fault("gpt_oss", {{"num_local_experts", 6}}), "mlp.router.weight"));
    CHECK(test::contains(fault("opt", {{"max_position_embeddings", 34}}),
                         "embed_positions.weight has shape [34, 24], but with config.json it must "
                         "have [36, 24]"));
    CHECK(test::contains(fault("gemma2", {{"head_dim", 7}, {"query_pre_attn_scalar", 7}}),
                         "head_dim"));
    CHECK(test::contains(fault("falcon", {{"num_ln_in_parallel_attn", 1}}),
                         "tensor transformer.h.0.input_layernorm.weight is missing"));
    CHECK(test::contains(
        fault("phi", {{"rope_parameters", {{"rope_theta", 1.0}, {"partial_rotary_factor", 0.4}}}}),
        "partial_rotary_factor"));
}

TEST_CASE("a family without biases keeps those of its norms unless all are 0") {
    CHECK(HfFolder(models / "nemotron").shape().norm_bias);
    CHECK(!HfFolder(models / "stablelm").shape().norm_bias);
    CHECK(!HfFolder(models / "starcoder2_untied").shape().norm_bias);
    CHECK(HfFolder(models / "stablelm_parallel").shape().norm_bias);
}

TEST_CASE("sizes that a class cannot have are named with it") {
    const auto refused = [](const std::string& name,
                            const std::function<void(ModelShape&)>& change) {
        ModelShape model = shape_of(read(name).model);
        change(model);
        return test::message_of(ExitCode::usage, [&] { hf_class_of(model); });
    };
    CHECK(test::contains(refused("bloom", [](ModelShape& model) { model.ffn = 50; }),
                         "model.ffn_hidden_size 50: BloomForCausalLM needs 4 * model.hidden_size"));
    // GPT-2 has ReLU, too, and any norm_eps.
    ModelShape opt = shape_of(read("opt").model);
    opt.norm_eps = 1e-6;
    CHECK(hf_class_of(opt) == HfClass::gpt2);
    CHECK(test::contains(refused("gpt_oss", [](ModelShape& model) { model.experts->bias = false; }),
                         "model.experts.bias false and model.attention_sinks true"));
    CHECK(test::contains(
        refused("olmo2", [](ModelShape& model) { model.norm_placement = NormPlacement::both; }),
        "model.norm_placement both"));
    CHECK(test::contains(refused("gemma2", [](ModelShape& model) { model.embedding_scale = 2; }),
                         "model.embedding_scale 2"));
}

}  // namespace
}  // namespace gptrain
