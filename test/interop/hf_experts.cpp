// Models with experts, saved by transformers (make_hf_models.py): how folders hold the experts.
#include "interop/hf_experts.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "catch.h"
#include "interop/export_hf.h"
#include "interop/export_peft.h"
#include "interop/hf_folder.h"
#include "interop/peft_files.h"
#include "support/temp_folder.h"

namespace gptrain {
namespace {

const std::filesystem::path models = std::filesystem::path(GPTRAIN_TEST_DATA) / "models";

WeightReader weights_of(const HfFolder& folder) {
    return [&](const Shard& part, std::span<float> values) { folder.read(part, values); };
}

void write(const ModelShape& model, const HfFolder& weights, const std::filesystem::path& to,
           DType dtype = DType::f32) {
    std::filesystem::create_directories(to);
    write_hf_model(to, {.model = model, .ids = {}, .dtype = dtype, .max_shard_bytes = 1 << 30},
                   weights_of(weights));
}

std::vector<float> floats_in(const SafetensorsFile& file, const std::string& name) {
    const auto bytes = file.bytes_of(file.tensors().find(name)->second);
    std::vector<float> values(bytes.size() / sizeof(float));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
}

TEST_CASE("fused experts are read, and exported one by one") {
    const HfFolder fused(models / "mixtral_fused");
    CHECK(fused.unused_tensors().empty());
    const test::TempFolder out;
    write(fused.shape(), fused, out.path());
    const HfFolder back(out.path());
    CHECK(back.unused_tensors().empty());
    back.check(fused.shape(), weights_of(fused));

    const SafetensorsFile theirs(models / "mixtral_fused" / "model.safetensors");
    const SafetensorsFile ours(out / "model.safetensors");
    const auto same = [&](const std::string& written, const std::string& from, std::size_t begin) {
        const std::vector<float> part = floats_in(ours, written);
        const std::vector<float> all = floats_in(theirs, from);
        REQUIRE(all.size() >= begin + part.size());
        return std::equal(part.begin(), part.end(),
                          all.begin() + static_cast<std::ptrdiff_t>(begin));
    };
    const auto matrix = static_cast<std::size_t>(24 * 16);
    for (const std::size_t expert : {0, 3}) {
        INFO(expert);
        const std::string to = text("model.layers.1.block_sparse_moe.experts.", expert, ".");
        const std::string from = "model.layers.1.mlp.experts.";
        CHECK(same(to + "w1.weight", from + "gate_up_proj", 2 * expert * matrix));
        CHECK(same(to + "w3.weight", from + "gate_up_proj", (2 * expert + 1) * matrix));
        CHECK(same(to + "w2.weight", from + "down_proj", expert * matrix));
    }
}

/// The error about a Mixtral's folder with these tensors besides those of layer 0, which has all.
std::string fault_of(std::vector<std::string> names) {
    const HfFolder folder(models / "mixtral");
    for (int expert = 0; expert < 4; ++expert)
        names.push_back(text("model.layers.0.block_sparse_moe.experts.", expert, ".w1.weight"));
    std::sort(names.begin(), names.end());
    return test::message_of(ExitCode::bad_input, [&] {
        check_hf_experts(folder.shape(), HfClass::mixtral, {names.begin(), names.end()}, "folder");
    });
}

TEST_CASE("missing and surplus experts, and those in two forms, are errors that name them") {
    const std::string block = "model.layers.1.block_sparse_moe.experts.";
    const auto with = [&](const std::vector<int>& experts) {
        std::vector<std::string> names;
        for (const int expert : experts)
            names.push_back(text(block, expert, ".w2.weight"));
        return names;
    };
    CHECK(fault_of(with({0, 1, 2, 3})).empty());
    CHECK(fault_of(with({0, 2})) ==
          "folder: " + block + "* lacks the experts 1, 3; config.json has num_local_experts 4");
    CHECK(fault_of(with({0, 1, 2, 3, 4, 12})) ==
          "folder: " + block +
              "* has the experts 4, 12 too much; config.json has num_local_experts 4");
    std::vector<std::string> both = with({2});
    both.push_back(fused_experts_name(1));
    CHECK(fault_of(both) == "folder: has model.layers.1.mlp.experts.gate_up_proj and also " +
                                block + "2; remove one of the two forms");
    CHECK(fault_of({fused_experts_name(1)}).empty());
}

TEST_CASE("a folder whose experts are not those of config.json is refused") {
    const test::TempFolder folder;
    std::filesystem::copy(models / "glm4_moe", folder / "glm4_moe");
    const std::filesystem::path path = folder / "glm4_moe" / "config.json";
    Json config = parse_json(test::contents(path), "config.json");
    config["n_routed_experts"] = 12;
    test::fill(path, to_document(config));
    CHECK(test::contains(
        test::message_of(ExitCode::bad_input, [&] { HfFolder opened(folder / "glm4_moe"); }),
        "model.layers.1.mlp.experts.* lacks the experts 8, 9, 10, 11; config.json has "
        "n_routed_experts 12"));
}

TEST_CASE("what sigmoid scores depend on is exported in fp32") {
    const HfFolder folder(models / "glm4_moe");
    const test::TempFolder out;
    write(folder.shape(), folder, out.path(), DType::bf16);
    const SafetensorsFile file(out / "model.safetensors");
    for (const auto& [name, entry] : file.tensors()) {
        INFO(name);
        const bool router = name.find(".mlp.gate.") != name.npos;
        CHECK(entry.dtype == (router ? "F32" : "BF16"));
        CHECK(entry.begin % (router ? 4 : 2) == 0);
    }
    HfFolder(out.path()).check(folder.shape(), weights_of(folder));
}

TEST_CASE("a GLM-4-MoE without a bias of the choice is written with one of 0") {
    const HfFolder folder(models / "glm4_moe");
    ModelShape model = folder.shape();
    model.experts->balance.bias_rate.reset();
    const test::TempFolder out;
    write(model, folder, out.path());
    const HfFolder back(out.path());
    back.check(model, weights_of(folder));
    std::vector<float> bias(8, 1);
    back.read(Shard::whole("h.1.router.balance", {8}), bias);
    CHECK(bias == std::vector<float>(8, 0));
    CHECK(test::contains(
        test::message_of(ExitCode::bug, [&] { folder.check(model, weights_of(folder)); }),
        "h.1.router.balance was not read back as 0"));
}

TEST_CASE("an adapter of attention is exported from a model with experts") {
    const HfFolder folder(models / "qwen3_moe");
    ModelShape model = folder.shape();
    model.lora = Lora{.rank = 2, .targets = {LinearName::attn_q, LinearName::mlp_fc}};
    const test::TempFolder out;
    write_peft_adapter(
        out.path(), {.model = model, .hf_class = HfClass::qwen3_moe, .adapted_path = {}},
        [](const Shard&, std::span<float> to) { std::fill(to.begin(), to.end(), 1); });
    const SafetensorsFile file(out / std::string(peft_weights_name));
    std::vector<std::string> names;
    for (const auto& [name, entry] : file.tensors())
        if (name.ends_with("lora_A.weight")) names.push_back(name);
    const std::string layers = "base_model.model.model.layers.";
    CHECK(names == std::vector<std::string>{layers + "0.self_attn.q_proj.lora_A.weight",
                                            layers + "1.mlp.up_proj.lora_A.weight",
                                            layers + "1.self_attn.q_proj.lora_A.weight",
                                            layers + "2.self_attn.q_proj.lora_A.weight"});
}

}  // namespace
}  // namespace gptrain
