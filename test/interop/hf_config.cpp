#include "interop/hf_config.h"

#include <fstream>

#include "catch.h"
#include "interop/hf_folder.h"
#include "support/temp_folder.h"

namespace gptrain {
namespace {

/// A minimal config.json of a small Llama.
Json llama() {
    return parse_json(R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"],
        "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2,
        "num_attention_heads": 4, "vocab_size": 40, "max_position_embeddings": 32})",
                      "test");
}

/// The error for a Llama with these members.
std::string refusal(const Json& members) {
    Json config = llama();
    config.update(members);
    return test::message_of(ExitCode::bad_input, [&] { read_hf_config(config, "config.json"); });
}

TEST_CASE("absent members have the defaults of their class") {
    const HfConfig config = read_hf_config(llama(), "config.json");
    CHECK(config.hf_class == HfClass::llama);
    CHECK(config.model.num_query_groups == 4);
    CHECK(config.model.head_dim == 4);
    CHECK(config.model.rope_theta == 10000.0);
    CHECK(config.model.norm_eps == 1e-6);
    CHECK(!config.model.tie_embeddings);
    CHECK(!config.model.bias);
    CHECK(!config.ids.eos);
}

TEST_CASE("both dialects give the base of the rotations") {
    Json old_way = llama();
    old_way.update({{"rope_theta", 5e5}, {"rope_scaling", nullptr}});
    CHECK(read_hf_config(old_way, "config.json").model.rope_theta == 5e5);
    Json new_way = llama();
    new_way["rope_parameters"] = {{"rope_theta", 5e5}, {"rope_type", "default"}};
    CHECK(read_hf_config(new_way, "config.json").model.rope_theta == 5e5);
}

/// The model of a Llama, or of another class, with these members.
ModelSpec model_with(const Json& members) {
    Json config = llama();
    config["architectures"] = nullptr;
    config.update(members);
    return read_hf_config(config, "config.json").model;
}

TEST_CASE("rope_scaling replaces rope_parameters unless it is empty") {
    const Json yarn = {{"rope_type", "yarn"}, {"factor", 4.0}};
    const Json other = {{"rope_type", "linear"}, {"factor", 2.0}, {"rope_theta", 5e5}};
    const auto read = [&](const Json& scaling, const Json& top_theta) {
        return model_with(
            {{"rope_scaling", scaling}, {"rope_parameters", other}, {"rope_theta", top_theta}});
    };
    CHECK(read(yarn, nullptr).rope_scaling->kind == RopeScalingKind::yarn);
    CHECK(read(yarn, nullptr).rope_theta == 10000.0);
    CHECK(read(yarn, 7e5).rope_theta == 7e5);
    Json with_theta = yarn;
    with_theta["rope_theta"] = 9e5;
    CHECK(read(with_theta, 7e5).rope_theta == 9e5);
    for (const Json& none : {Json(nullptr), Json::object()}) {
        CHECK(read(none, 7e5).rope_scaling->kind == RopeScalingKind::linear);
        CHECK(read(none, 7e5).rope_theta == 5e5);
    }
    CHECK(model_with({{"rope_parameters", Json::object()}, {"rope_theta", 7e5}}).rope_theta == 7e5);

    // The share that is rotated counts first in the rope section that is read, then at the top.
    const Json whole = {{"partial_rotary_factor", 1.0}};
    Json stablelm = {{"model_type", "stablelm"}, {"rope_parameters", whole}};
    CHECK(model_with(stablelm).rotary_fraction == 1);
    stablelm["partial_rotary_factor"] = 0.5;
    CHECK(model_with(stablelm).rotary_fraction == 1);
    stablelm["rope_scaling"] = yarn;
    CHECK(model_with(stablelm).rotary_fraction == 0.5);
    CHECK(model_with(stablelm).rope_scaling->kind == RopeScalingKind::yarn);
}

TEST_CASE("original_max_position_embeddings counts most at the top of config.json") {
    for (const char* type : {"yarn", "llama3"}) {
        for (const char* key : {"rope_scaling", "rope_parameters"}) {
            Json rope = {{"rope_type", type},
                         {"factor", 4.0},
                         {"low_freq_factor", 1.0},
                         {"high_freq_factor", 4.0}};
            Json config = {{key, rope}, {"original_max_position_embeddings", 8}};
            CHECK(model_with(config).rope_scaling->original_max_position_embeddings == 8);
            config[key]["original_max_position_embeddings"] = 16;
            CHECK(model_with(config).rope_scaling->original_max_position_embeddings == 8);
            config.erase("original_max_position_embeddings");
            CHECK(model_with(config).rope_scaling->original_max_position_embeddings == 16);
        }
    }
}

TEST_CASE("a Mistral or Ministral with layer_types has the window in the layers that they name") {
    const std::string type = GENERATE("mistral", "ministral");
    const auto read = [&](const Json& types) {
        Json config = llama();
        config.update({{"model_type", type},
                       {"architectures", nullptr},
                       {"sliding_window", 8},
                       {"layer_types", types}});
        return read_hf_config(config, "config.json");
    };
    const HfConfig mixed = read({"full_attention", "sliding_attention"});
    CHECK(mixed.hf_class == HfClass::ministral);
    CHECK(mixed.model.sliding_window == 8);
    CHECK(mixed.model.full_attention_layers == std::vector<std::int64_t>{0});
    for (const Json& all : {Json(nullptr), Json{"sliding_attention", "sliding_attention"}}) {
        CHECK(read(all).hf_class == HfClass::mistral);
        CHECK(read(all).model.sliding_window == 8);
        CHECK(read(all).model.full_attention_layers.empty());
    }
    const HfConfig full = read({"full_attention", "full_attention"});
    CHECK(full.hf_class == HfClass::llama);
    CHECK(!full.model.sliding_window);
    CHECK(full.model.full_attention_layers.empty());
}

TEST_CASE("windows and stretched rotations become keys of the run spec") {
    const auto read = model_with;
    CHECK(read({{"model_type", "mistral"}}).sliding_window == 4096);
    CHECK(read({{"model_type", "ministral"}}).sliding_window == 4096);
    CHECK(!read({{"model_type", "mistral"}, {"sliding_window", nullptr}}).sliding_window);
    const Json window = {{"model_type", "qwen3"},
                         {"use_sliding_window", true},
                         {"sliding_window", 8},
                         {"max_window_layers", 1}};
    CHECK(read(window).full_attention_layers == std::vector<std::int64_t>{0});
    CHECK(read(window).head_dim == 128);
    Json absent = window;
    absent.erase("sliding_window");
    CHECK(read(absent).sliding_window == 4096);
    CHECK(read(absent).full_attention_layers == std::vector<std::int64_t>{0});
    Json none = window;
    none["sliding_window"] = nullptr;
    CHECK(!read(none).sliding_window);
    Json unused = window;
    unused["use_sliding_window"] = false;
    CHECK(!read(unused).sliding_window);
    const Json yarn = {{"model_type", "qwen2"},
                       {"rope_scaling", {{"type", "yarn"}, {"factor", 4.0}}}};
    CHECK(read(yarn).rope_scaling == RopeScaling{.kind = RopeScalingKind::yarn,
                                                 .factor = 4,
                                                 .original_max_position_embeddings = 32});
    CHECK(read(yarn).qkv_bias == true);
}

TEST_CASE("both forms of GELU are read in all their spellings") {
    const auto read = [](const Json& members) {
        Json config = llama();
        config["architectures"] = nullptr;
        config.update(members);
        return read_hf_config(config, "config.json").model.activation;
    };
    const Json gpt2 = {
        {"model_type", "gpt2"}, {"n_layer", 2}, {"n_embd", 16}, {"n_head", 4}, {"n_positions", 32}};
    for (const auto& [members, key] :
         {std::pair(gpt2, "activation_function"),
          std::pair(Json{{"model_type", "starcoder2"}}, "hidden_act")}) {
        Json config = members;
        CHECK(read(config) == Activation::gelu);
        for (const char* tanh :
             {"gelu_new", "gelu_fast", "gelu_accurate", "gelu_pytorch_tanh", "gelu_python_tanh"}) {
            config[key] = tanh;
            CHECK(read(config) == Activation::gelu);
        }
        for (const char* exact : {"gelu", "gelu_python"}) {
            config[key] = exact;
            CHECK(read(config) == Activation::gelu_erf);
        }
    }
    CHECK(read({{"hidden_act", "swish"}}) == Activation::swiglu);
    CHECK(read({{"hidden_act", nullptr}}) == Activation::swiglu);
    CHECK(read({{"hidden_act", "gelu_pytorch_tanh"}}) == Activation::geglu);
}

TEST_CASE("a fault in the sizes names the keys of config.json, and no place in a run spec") {
    const auto fault = [](const Json& members) {
        Json config = llama();
        config["architectures"] = nullptr;
        config.update(members);
        const test::TempFolder folder;
        std::ofstream(folder / "config.json") << to_line(config);
        const std::string message =
            test::message_of(ExitCode::bad_input, [&] { HfFolder(folder.path()); });
        const std::string source = (folder / "config.json").string() + ": ";
        CHECK(message.starts_with(source));
        return message.substr(source.size());
    };
    CHECK(fault({{"num_key_value_heads", 3}}) ==
          "num_attention_heads 4 is not a multiple of 3, num_key_value_heads; set "
          "num_attention_heads to 3 or 6, or change the latter");
    CHECK(fault({{"rms_norm_eps", 1e30}}) ==
          "rms_norm_eps: found 1.0e+30, must be a number from 1e-30 to 1");
    CHECK(fault({{"model_type", "gpt2"},
                 {"n_layer", 200000},
                 {"n_embd", 16},
                 {"n_head", 4},
                 {"n_positions", 32}}) ==
          "n_layer: found 200000, must be an integer from 1 to 100000");
}

TEST_CASE("special ids may be lists, and those outside the vocabulary are left out") {
    Json config = llama();
    config.update({{"bos_token_id", 50256}, {"eos_token_id", {3, 4}}});
    const HfConfig read = read_hf_config(config, "config.json");
    CHECK(!read.ids.bos);
    CHECK(read.ids.eos == 3);
}

/// Members of config.json, and what the error about them contains.
using Refusals = std::vector<std::pair<Json, std::string>>;

void check_refusals(const Refusals& cases) {
    for (const auto& [members, expected] : cases) {
        const std::string message = refusal(members);
        INFO(message);
        CHECK(test::contains(message, "config.json: "));
        CHECK(test::contains(message, expected));
    }
}

TEST_CASE("what no key of the run spec expresses is an error that names key and value") {
    check_refusals({
        {{{"model_type", "olmo"}}, "'model_type' is \"olmo\"; gptrain reads gpt2, llama, "},
        {{{"architectures", {"LlamaModel"}}}, "'architectures' is [\"LlamaModel\"]"},
        {{{"hidden_act", "gelu"}},
         "'hidden_act' is \"gelu\"; gptrain has here silu and gelu_pytorch_tanh"},
        {{{"model_type", "gpt2"},
          {"architectures", nullptr},
          {"n_layer", 2},
          {"n_embd", 16},
          {"n_head", 4},
          {"n_positions", 32},
          {"activation_function", "quick_gelu"}},
         "'activation_function' is \"quick_gelu\"; gptrain has here gelu, gelu_new, gelu_fast, "
         "gelu_pytorch_tanh, relu and relu2"},
        {{{"quantization_config", {{"bits", 4}}}},
         "quantization_config: 'quant_method' is missing"},
        {{{"hidden_size", 0}}, "'hidden_size' is 0"},
        {{{"hidden_size", -16}}, "'hidden_size' is -16"},
        {{{"hidden_size", 1e30}}, "'hidden_size' must be an integer"},
        {{{"hidden_size", "16"}}, "'hidden_size' must be an integer"},
        {{{"rms_norm_eps", 0.0}}, "'rms_norm_eps' is 0.0"},
        {{{"model_type", "stablelm"}, {"architectures", nullptr}, {"partial_rotary_factor", 2.0}},
         "'partial_rotary_factor' is 2.0; it must be at most 1"},
        {{{"model_type", "stablelm"}, {"architectures", nullptr}, {"qk_layernorm", true}},
         "'qk_layernorm' is true"},
    });
}

TEST_CASE("rotations and windows that no key expresses are errors that name key and value") {
    check_refusals({
        {{{"rope_scaling", {{"rope_type", "longrope"}, {"factor", 8.0}}}},
         "'rope_scaling': 'rope_type' is \"longrope\""},
        {{{"rope_scaling", {{"type", "dynamic"}, {"factor", 2.0}}}}, "'type' is \"dynamic\""},
        {{{"rope_parameters", {{"rope_type", "yarn"}}}}, "'factor' is missing"},
        {{{"rope_scaling", {{"rope_type", "yarn"}, {"factor", 4.0}, {"mscale", 0.7}}}},
         "'mscale' is 0.7; gptrain has no yarn with mscale"},
        {{{"rope_scaling", 4}}, "'rope_scaling': must be a JSON object"},
        {{{"rope_parameters", {{"full_attention", {{"rope_theta", 1e6}}}}}},
         "'rope_parameters': 'full_attention' is {\"rope_theta\":1000000.0}; gptrain rotates alike "
         "in all layers"},
        {{{"model_type", "mistral"},
          {"architectures", nullptr},
          {"sliding_window", 8},
          {"layer_types", {"full_attention"}}},
         "'layer_types' is [\"full_attention\"]; it needs an entry for each layer"},
        {{{"sliding_window", 4096}}, "'sliding_window' is 4096; gptrain has no sliding window"},
        {{{"model_type", "qwen2"},
          {"architectures", nullptr},
          {"use_sliding_window", true},
          {"sliding_window", 8},
          {"layer_types", {"full_attention"}}},
         "'layer_types' is [\"full_attention\"]; it needs an entry for each layer"},
        {{{"model_type", "qwen2"},
          {"architectures", nullptr},
          {"use_sliding_window", true},
          {"sliding_window", 8},
          {"layer_types", {"full_attention", "chunked_attention"}}},
         "gptrain has full_attention and sliding_attention"},
    });
}

ModelShape shape_with(const std::function<void(ModelShape&)>& change) {
    ModelShape model = shape_of(read_hf_config(llama(), "config.json").model);
    change(model);
    return model;
}

TEST_CASE("a model of no class of transformers is an error that names the keys") {
    const auto refused = [](const std::function<void(ModelShape&)>& change) {
        return test::message_of(ExitCode::usage, [&] { hf_class_of(shape_with(change)); });
    };
    CHECK(test::contains(
        refused([](ModelShape& model) { model.position_embedding = PositionEmbedding::learned; }),
        "model.position_embedding learned, model.normalization rmsnorm"));
    CHECK(test::contains(refused([](ModelShape& model) {
                             model.normalization = Normalization::layernorm;
                             model.bias = model.qkv_bias = true;
                         }),
                         "model.bias true"));
    CHECK(test::contains(refused([](ModelShape& model) {
                             model.bias = model.qkv_bias = true;
                             model.sliding_window = 8, model.full_attention_layers = {0};
                         }),
                         "model.sliding_window 8 except in model.full_attention_layers"));
    CHECK(test::contains(refused([](ModelShape& model) {
                             model.normalization = Normalization::layernorm;
                             model.head_dim = 8;
                         }),
                         "model.head_dim 8"));
    CHECK(test::contains(refused([](ModelShape& model) {
                             model.position_embedding = PositionEmbedding::learned;
                             model.normalization = Normalization::layernorm;
                             model.activation = Activation::gelu;
                             model.groups = 2;
                         }),
                         "model.num_query_groups 2"));
}

TEST_CASE("windows decide between the classes that are like Llama") {
    const auto class_with = [](std::optional<std::int64_t> window,
                               std::vector<std::int64_t> full_layers) {
        return hf_class_of(shape_with([&](ModelShape& model) {
            model.sliding_window = window;
            model.full_attention_layers = std::move(full_layers);
        }));
    };
    CHECK(class_with({}, {}) == HfClass::llama);
    CHECK(class_with(8, {}) == HfClass::mistral);
    CHECK(class_with(8, {0}) == HfClass::ministral);
    CHECK(class_with(8, {0, 1}) == HfClass::llama);
}

TEST_CASE("an index names plain files") {
    const auto refused = [](const std::string& json) {
        return test::message_of(ExitCode::bad_input, [&] { parse_hf_index(json, "index"); });
    };
    CHECK(parse_hf_index(R"({"metadata": {}, "weight_map": {"a": "b.safetensors"}})", "index") ==
          std::map<std::string, std::string>{{"a", "b.safetensors"}});
    for (const char* name : {"", "../b", "/b", ".b", "a/b", "a\\\\b", "a\\u0000b"}) {
        INFO(name);
        CHECK(test::contains(refused(text(R"({"weight_map": {"a": ")", name, "\"}}")),
                             "an invalid file name"));
    }
    CHECK(test::contains(refused(R"({"weight_map": {"a": 1}})"), "only file names"));
    CHECK(test::contains(refused(R"({"weight_map": {}})"), "is empty"));
    CHECK(test::contains(refused(R"({"weight_map": {"a": "b", "a": "c"}})"), "a"));
}

}  // namespace
}  // namespace gptrain
