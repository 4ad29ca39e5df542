// LoRA adapters of small models, saved by PEFT with their logits (make_peft_adapters.py).
#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "catch.h"
#include "comm/mesh.h"
#include "cpu/cpu_backend.h"
#include "infer/logits.h"
#include "interop/export_peft.h"
#include "interop/hf_folder.h"
#include "interop/peft_files.h"
#include "interop/peft_folder.h"
#include "spec/make_plan.h"
#include "support/temp_folder.h"

namespace gptrain {
namespace {

using namespace test;

const std::filesystem::path adapters = std::filesystem::path(GPTRAIN_TEST_DATA) / "adapters";

PeftFolder open(const HfFolder& base, const std::filesystem::path& folder) {
    return PeftFolder(folder, base.shape(), base.config().hf_class);
}

std::vector<float> floats_in(const SafetensorsFile& file, std::string_view name) {
    const auto bytes = file.bytes_of(file.tensors().find(name)->second);
    std::vector<float> values(bytes.size() / sizeof(float));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
}

/// The plan of a run that has the adapter.
RunPlan plan_of(const HfFolder& base, const PeftFolder& adapter) {
    RunSpec spec = base.spec();
    spec.adapter = adapter.adapter();
    spec.init_from = base.path();
    return make_plan(spec, {});
}

TEST_CASE("adapters of PEFT compute the same logits here") {
    for (const std::string name : {"llama", "llama_rslora", "gpt2", "phi3"}) {
        INFO(name);
        const HfFolder base(peft_base(adapters / name, ""));
        const PeftFolder adapter = open(base, adapters / name);
        const SafetensorsFile expected(adapters / name / "logits.safetensors");
        const std::vector<float> theirs = floats_in(expected, "logits");
        const std::vector<float> tokens = floats_in(expected, "ids");
        const std::vector<std::int32_t> ids(tokens.begin(), tokens.end());
        const auto backend = cpu::make_backend();
        const Mesh mesh = one_rank_mesh();
        const auto ours =
            compute_logits(*backend, mesh, plan_of(base, adapter), ids, [&](InferenceModel& model) {
                model.load([&](const Shard& part, std::span<float> to) {
                    is_adapter_parameter(part.name) ? adapter.read(part, to) : base.read(part, to);
                });
            });
        REQUIRE(ours.size() == theirs.size());
        float largest = 0;
        float apart = 0;
        for (std::size_t i = 0; i < ours.size(); ++i) {
            largest = std::max(largest, std::abs(theirs[i]));
            apart = std::max(apart, std::abs(ours[i] - theirs[i]));
        }
        CHECK(apart < 2e-5f * largest);
    }
}

TEST_CASE("an adapter of gptrain is read back from PEFT's form as it was") {
    const TempFolder folder;
    const HfFolder base(adapters / "../models/gpt2");
    ModelShape model = base.shape();
    model.lora = Lora{.rank = 2,
                      .scale = 1.5,
                      .targets = {LinearName::attn_q, LinearName::attn_v, LinearName::mlp_fc}};
    const auto values = [](const Shard& part, std::span<float> to) {
        for (std::size_t i = 0; i < to.size(); ++i)
            to[i] = static_cast<float>(part.name.size() + 1 + i);
    };
    write_peft_adapter(folder.path(),
                       {.model = model, .hf_class = base.config().hf_class, .adapted_path = ""},
                       values);
    const PeftFolder adapter = open(base, folder.path());
    CHECK(adapter.adapter().rank == 2);
    CHECK(adapter.adapter().alpha == 3);
    CHECK(adapter.adapter().targets == model.lora->targets);
    for (const Shard& tensor : whole_tensors(model)) {
        if (!is_adapter_parameter(tensor.name)) continue;
        CAPTURE(tensor.name);
        std::vector<float> written(static_cast<std::size_t>(tensor.elements()));
        std::vector<float> read(written.size());
        values(tensor, written);
        adapter.read(tensor, read);
        CHECK(read == written);
    }
}

/// The message with which the adapter is refused after `change` of its config.
std::string refusal_of(const std::string& name, const auto& change) {
    const TempFolder folder;
    std::filesystem::copy(adapters / name, folder.path() / "a");
    const std::filesystem::path path = folder.path() / "a" / peft_config_name;
    Json config = parse_json(contents(path), "config");
    change(config);
    fill(path, to_document(config));
    const HfFolder base(adapters / "../models" / (name == "gpt2" ? "gpt2" : "llama"));
    return message_of(ExitCode::bad_input, [&] { open(base, folder.path() / "a"); });
}

TEST_CASE("an adapter that would compute something else is refused by the name of its key") {
    struct Case {
        const char* key;
        Json value;
        const char* words;
    };
    const Case cases[] = {
        {"peft_type", "IA3", "'peft_type' is \"IA3\", but only LORA is read"},
        {"peft_type", nullptr, "has no 'peft_type'"},
        {"use_dora", true, "has 'use_dora': true: this is DoRA"},
        {"bias", "all", "'bias' is \"all\": the adapter has biases"},
        {"modules_to_save", Json::array({"lm_head"}),
         "has 'modules_to_save': [\"lm_head\"]: whole"},
        {"layers_to_transform", Json::array({0}), "adapts all layers alike"},
        {"trainable_token_indices", Json::array({3}), "has 'trainable_token_indices': [3], which"},
        {"a_key_of_tomorrow", 1, "has 'a_key_of_tomorrow': 1, which gptrain does not read"},
        {"init_lora_weights", "pissa_niter_4", "changes the weights of the base"},
        {"r", 2.5, "'r' is 2.5, no whole number"},
        {"r", 0, "'r' is 0, must be a number from 1 to 4096"},
        {"r", 5, "lora_A.weight has shape [4, 16], but with this base"},
        {"lora_alpha", "six", "'lora_alpha' is \"six\", must be a number"},
        {"use_rslora", 1, "'use_rslora' must be true or false"},
        {"rank_pattern", Json{{"q_.*", 4}}, "has the regular expression \"q_.*\""},
        {"rank_pattern", Json{{"self_attn.q_proj", 2}}, "lora_A.weight has shape [4, 16]"},
        {"alpha_pattern", Json{{"q_proj", 7}}, "an adapter of gptrain has one factor"},
    };
    for (const Case& one : cases) {
        CAPTURE(one.key, to_line(one.value));
        const std::string message =
            refusal_of("llama", [&](Json& config) { config[one.key] = one.value; });
        CHECK(message.find("/a/adapter_") != message.npos);
        CHECK(contains(message, one.words));
    }
    // Values that say nothing, and a pattern that changes nothing.
    const TempFolder folder;
    std::filesystem::copy(adapters / "llama", folder.path() / "a");
    Json config = parse_json(contents(folder.path() / "a" / peft_config_name), "config");
    config["use_dora"] = false;
    config["alpha_pattern"] = {{"q_proj", 6}, {"proj", 9}};
    config["a_key_of_tomorrow"] = Json::object();
    fill(folder.path() / "a" / peft_config_name, to_document(config));
    CHECK_NOTHROW(open(HfFolder(adapters / "../models/llama"), folder.path() / "a"));
}

TEST_CASE("an adapter of another base, or with tensors too few or too many, is refused") {
    const HfFolder llama(adapters / "../models/llama");
    const HfFolder gpt2(adapters / "../models/gpt2");
    const auto message = [&](const HfFolder& base, const std::filesystem::path& folder) {
        return message_of(ExitCode::bad_input, [&] { open(base, folder); });
    };
    CHECK(contains(message(gpt2, adapters / "llama"), "is it the adapter's base?"));
    CHECK(contains(message(llama, adapters / "gpt2"), "is it the adapter's base?"));
    const TempFolder folder;
    fill(folder / std::string(peft_config_name),
         R"({"peft_type": "LORA", "r": 2, "lora_alpha": 2})");
    const std::string layer = "base_model.model.model.layers.0.self_attn.q_proj";
    const auto write = [&](std::vector<PeftTensor> tensors) {
        std::filesystem::remove(folder / std::string(peft_weights_name));
        write_peft_files(folder.path(), tensors, DType::f32,
                         Json{{"peft_type", "LORA"}, {"r", 2}, {"lora_alpha", 2}});
        return message(llama, folder.path());
    };
    const PeftTensor a = {layer + ".lora_A.weight", {2, 16}, std::vector<float>(32)};
    const PeftTensor b = {layer + ".lora_B.weight", {32, 2}, std::vector<float>(64)};
    CHECK(contains(write({a}), layer + ".lora_B.weight is missing"));
    CHECK(contains(write({a, b}), "adapts attn.q in some layers, but has nothing for "));
    PeftTensor wide = b;
    wide.shape = {16, 4};
    CHECK(contains(write({a, wide}), "it must have [32, 2]"));
    PeftTensor head = a;
    head.name = "base_model.model.lm_head.lora_A.weight";
    PeftTensor head_b = {"base_model.model.lm_head.lora_B.weight", {40, 2}, std::vector<float>(80)};
    CHECK(contains(write({head, head_b}), "adapts the module lm_head, but gptrain adapts only"));
    CHECK(
        contains(write({{"x.weight", {2, 2}, std::vector<float>(4)}}), "has the tensor x.weight"));
}

}  // namespace
}  // namespace gptrain
