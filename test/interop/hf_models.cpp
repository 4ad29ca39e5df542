// Small models of every class, saved by transformers with their logits (make_hf_models.py).
#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "catch.h"
#include "comm/mesh.h"
#include "cpu/cpu_backend.h"
#include "infer/logits.h"
#include "interop/export_hf.h"
#include "interop/hf_folder.h"
#include "spec/make_plan.h"
#include "support/temp_folder.h"

namespace gptrain {
namespace {

const std::filesystem::path models = std::filesystem::path(GPTRAIN_TEST_DATA) / "models";

std::vector<float> floats_in(const SafetensorsFile& file, std::string_view name) {
    const auto bytes = file.bytes_of(file.tensors().find(name)->second);
    std::vector<float> values(bytes.size() / sizeof(float));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
}

std::vector<float> logits_of(const HfFolder& folder, const std::vector<float>& tokens) {
    const std::vector<std::int32_t> ids(tokens.begin(), tokens.end());
    const RunPlan plan = make_plan(folder.spec(), {});
    const auto backend = cpu::make_backend();
    const Mesh mesh = one_rank_mesh();
    return compute_logits(*backend, mesh, plan, ids, [&](InferenceModel& model) {
        model.load([&](const Shard& part, std::span<float> to) { folder.read(part, to); });
    });
}

using Tensors = std::map<std::string, std::pair<std::vector<std::int64_t>, std::vector<std::byte>>>;

/// The tensors of all files, as bytes, with their shapes.
Tensors tensors_in(const std::filesystem::path& folder) {
    Tensors tensors;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
        const std::string name = entry.path().filename().string();
        if (!name.ends_with(".safetensors") || name == "logits.safetensors") continue;
        const SafetensorsFile file(entry.path());
        for (const auto& [tensor, record] : file.tensors()) {
            const auto bytes = file.bytes_of(record);
            tensors[tensor] = {record.shape, {bytes.begin(), bytes.end()}};
        }
    }
    return tensors;
}

/// Exports the folder's model as it was imported.
void export_again(const HfFolder& folder, const std::filesystem::path& to,
                  std::int64_t max_shard_bytes, DType dtype = DType::f32) {
    std::filesystem::create_directories(to);
    write_hf_model(to,
                   {.model = folder.shape(),
                    .ids = folder.config().ids,
                    .dtype = dtype,
                    .max_shard_bytes = max_shard_bytes},
                   [&](const Shard& part, std::span<float> values) { folder.read(part, values); });
}

const std::vector<std::string> names = {
    "glm4_moe", "gpt2", "gpt2_erf", "llama", "llama3", "llama_biases", "llama_tied", "ministral",
    "mistral", "mistral_window", "mixtral", "qwen2", "qwen2_moe", "qwen2_moe_all", "qwen3",
    "qwen3_moe", "qwen3_moe_all", "stablelm", "starcoder2", "starcoder2_erf", "starcoder2_untied",
    // Of make_family_models.py.
    "bloom", "cohere", "cohere2", "falcon", "falcon_one_norm", "gemma", "gemma2", "gemma3", "glm",
    "glm4", "glm4_moe_partial", "gpt_bigcode", "gpt_neox", "gpt_neox_sequential", "gpt_oss", "gptj",
    "llama_attention_biases", "llama_geglu", "nemotron", "olmo2", "olmoe", "opt", "phi", "phi3",
    "smollm3", "stablelm_parallel"};

/// Norms that hold what is added to 1 are stored as a difference, which is rounded.
bool rounds_norms(const std::string& name) {
    return name.starts_with("gemma") || name == "nemotron";
}

/// The index of the largest of each row of logits.
std::vector<std::int64_t> likeliest(std::span<const float> logits, std::int64_t vocab) {
    std::vector<std::int64_t> tokens;
    for (; !logits.empty(); logits = logits.subspan(static_cast<std::size_t>(vocab))) {
        const auto row = logits.first(static_cast<std::size_t>(vocab));
        tokens.push_back(std::max_element(row.begin(), row.end()) - row.begin());
    }
    return tokens;
}

TEST_CASE("models of transformers compute the same logits here") {
    std::vector<std::string> all = names;
    all.push_back("mixtral_fused");
    all.push_back("cohere_scaled");
    for (const std::string& name : all) {
        INFO(name);
        const SafetensorsFile expected(models / name / "logits.safetensors");
        const std::vector<float> theirs = floats_in(expected, "logits");
        const std::vector<float> ours =
            logits_of(HfFolder(models / name), floats_in(expected, "ids"));
        REQUIRE(ours.size() == theirs.size());
        float largest = 0;
        float apart = 0;
        for (std::size_t i = 0; i < ours.size(); ++i) {
            largest = std::max(largest, std::abs(theirs[i]));
            apart = std::max(apart, std::abs(ours[i] - theirs[i]));
        }
        CHECK(largest > 0.5F);
        CHECK(apart <= 2e-5F * largest);
        const std::int64_t vocab = HfFolder(models / name).shape().vocab;
        CHECK(likeliest(ours, vocab) == likeliest(theirs, vocab));
    }
}

/// Bit for bit, or with norms up to the rounding of a sum with 1.
void check_same(const Tensors& ours, const Tensors& theirs, bool rounded_norms) {
    REQUIRE(ours.size() == theirs.size());
    for (const auto& [name, tensor] : theirs) {
        INFO(name);
        REQUIRE(ours.contains(name));
        const auto& own = ours.at(name);
        CHECK(own.first == tensor.first);
        if (!rounded_norms || name.find("norm.weight") == name.npos) {
            CHECK(own.second == tensor.second);
            continue;
        }
        REQUIRE(own.second.size() == tensor.second.size());
        for (std::size_t i = 0; i < own.second.size(); i += sizeof(float)) {
            float a = 0;
            float b = 0;
            std::memcpy(&a, own.second.data() + i, sizeof a);
            std::memcpy(&b, tensor.second.data() + i, sizeof b);
            CHECK(std::abs(a - b) <= std::ldexp(1.0F, -23));
        }
    }
}

TEST_CASE("an exported model has the tensors of the imported one, bit for bit") {
    for (const std::string& name : names) {
        INFO(name);
        const test::TempFolder out;
        const DType dtype = name == "llama_tied" ? DType::bf16 : DType::f32;
        export_again(HfFolder(models / name), out / name, std::int64_t{1} << 30, dtype);
        check_same(tensors_in(out / name), tensors_in(models / name), rounds_norms(name));
        const HfFolder back(out / name);
        CHECK(back.config().model == HfFolder(models / name).config().model);
    }
}

TEST_CASE("every element of an export is compared with the model") {
    // Those that store tensors in different ways.
    for (const std::string name : {"gpt2", "llama", "qwen2_moe", "glm4_moe", "falcon", "gemma2",
                                   "glm4", "gpt_oss", "opt", "phi3"}) {
        for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
            INFO(name << " " << name_of(dtype));
            const test::TempFolder out;
            const HfFolder folder(models / name);
            export_again(folder, out / name, 4000, dtype);
            const HfFolder back(out / name);
            back.check(folder.shape(), [&](const Shard& part, std::span<float> values) {
                folder.read(part, values);
            });
            const auto swapped = [&](const Shard& part, std::span<float> values) {
                folder.read(part, values);
                if (part.global.rank() == 2) std::swap(values[1], values.back());
            };
            CHECK(test::contains(
                test::message_of(ExitCode::bug, [&] { back.check(folder.shape(), swapped); }),
                "was not read back as it was written"));
        }
    }
}

TEST_CASE("an export is split into files of the size asked for") {
    const test::TempFolder out;
    export_again(HfFolder(models / "gpt2"), out / "split", 4000);
    CHECK(std::filesystem::exists(out / "split" / "model.safetensors.index.json"));
    std::int64_t files = 0;
    for (const auto& entry : std::filesystem::directory_iterator(out / "split")) {
        if (entry.path().extension() != ".safetensors") continue;
        ++files;
        CHECK(entry.file_size() < 4000 + 2000);
    }
    CHECK(files > 5);
    CHECK(tensors_in(out / "split") == tensors_in(models / "gpt2"));
    CHECK(HfFolder(out / "split").shape() == HfFolder(models / "gpt2").shape());
}

TEST_CASE("any box and range of a tensor is read") {
    for (const char* name : {"gpt2", "llama", "mixtral", "mixtral_fused", "falcon", "gpt_oss",
                             "glm4", "gemma2", "opt"}) {
        const HfFolder folder(models / name);
        for (const Shard& whole : whole_tensors(folder.shape())) {
            std::vector<float> all(static_cast<std::size_t>(whole.elements()));
            folder.read(whole, all);
            Shard part = whole;
            for (int dim = 0; dim < part.global.rank(); ++dim) {
                part.box.offset[dim] = part.global[dim] / 4;
                part.box.extent[dim] = part.global[dim] / 2;
            }
            if (part.box.extent.elements() < 8) continue;
            part.flat_begin = 3;
            part.flat_end = part.box.extent.elements() - 2;
            std::vector<float> some(static_cast<std::size_t>(part.elements()));
            folder.read(part, some);
            bool equal = true;
            for (std::int64_t flat = part.flat_begin; flat < part.flat_end; ++flat) {
                equal = equal && some[static_cast<std::size_t>(flat - part.flat_begin)] ==
                                     all[static_cast<std::size_t>(part.global_index(flat))];
            }
            INFO(name << " " << whole.name);
            CHECK(equal);
        }
    }
}

/// A model whose files a test may change.
std::filesystem::path copy_of(const std::string& name, const test::TempFolder& to) {
    std::filesystem::copy(models / name, to / name, std::filesystem::copy_options::recursive);
    return to / name;
}

/// The error for an export of `name` whose config.json was changed.
std::string lost(const std::string& name, const std::function<void(Json&)>& change) {
    const test::TempFolder out;
    const HfFolder folder(models / name);
    export_again(folder, out / name, std::int64_t{1} << 30);
    const std::filesystem::path path = out / name / "config.json";
    Json config = parse_json(test::contents(path), "config.json");
    change(config);
    test::fill(path, to_document(config));
    const HfFolder back(out / name);
    return test::message_of(ExitCode::bug, [&] {
        back.check(folder.shape(),
                   [&](const Shard& part, std::span<float> values) { folder.read(part, values); });
    });
}

TEST_CASE("a setting that an export has lost is an error that names it, with both values") {
    CHECK(lost("llama3", [](Json&) {}).empty());
    CHECK(test::contains(lost("llama3",
                              [](Json& config) {
                                  config.erase("rope_theta");
                                  config["rope_parameters"].erase("rope_theta");
                              }),
                         "model.rope_theta 500 was read back as 10000"));
    CHECK(test::contains(lost("llama3",
                              [](Json& config) {
                                  config.erase("rope_scaling");
                                  config["rope_parameters"] = {{"rope_theta", 500.0}};
                              }),
                         "model.rope_scaling {\"kind\":\"llama3\""));
    const auto without = [](const std::string& name, const std::string& key) {
        return lost(name, [&](Json& config) { REQUIRE(config.erase(key) == 1); });
    };
    CHECK(test::contains(without("mistral_window", "sliding_window"),
                         "model.sliding_window 5 was read back as 4096"));
    CHECK(test::contains(without("ministral", "layer_types"),
                         "model.full_attention_layers [0] was read back as []"));
    CHECK(test::contains(without("llama_tied", "rms_norm_eps"),
                         "model.norm_eps 1e-05 was read back as 1e-06"));
    CHECK(test::contains(without("gpt2_erf", "activation_function"),
                         "model.activation gelu_erf was read back as gelu"));
    CHECK(test::contains(lost("gpt2", [](Json& config) { config["initializer_range"] = 0.5; }),
                         "model.init_std 0.02 was read back as 0.5"));
    CHECK(test::contains(without("qwen3_moe", "norm_topk_prob"),
                         "model.experts.router.normalize true was read back as false"));
    CHECK(test::contains(
        lost("glm4_moe", [](Json& config) { config["routed_scaling_factor"] = 1.0; }),
        "was read back as 1"));
    // The same shapes of tensors.
    CHECK(test::contains(lost("llama",
                              [](Json& config) {
                                  config["num_attention_heads"] = 2;
                                  config["num_key_value_heads"] = 1;
                                  config["head_dim"] = 16;
                              }),
                         "model.num_attention_heads 4 was read back as 2"));
}

TEST_CASE("a GPT-2 without biases is written with biases of 0") {
    const HfFolder folder(models / "gpt2");
    const auto weights = [&](const Shard& part, std::span<float> values) {
        folder.read(part, values);
    };
    ModelShape model = folder.shape();
    model.bias = model.qkv_bias = false;
    const test::TempFolder out;
    write_hf_model(out.path(),
                   {.model = model, .ids = {}, .dtype = DType::f32, .max_shard_bytes = 1 << 20},
                   weights);
    const HfFolder back(out.path());
    back.check(model, weights);
    const Shard bias = Shard::whole("h.0.attn.k.bias", {model.hidden});
    std::vector<float> values(static_cast<std::size_t>(model.hidden), 1);
    back.read(bias, values);
    CHECK(values == std::vector<float>(values.size(), 0));
    CHECK(test::contains(test::message_of(ExitCode::bug, [&] { folder.check(model, weights); }),
                         "was not read back as 0"));
}

TEST_CASE("next to an index, the single file is read") {
    const test::TempFolder folder;
    const std::filesystem::path model = copy_of("llama", folder);
    test::fill(model / "model.safetensors.index.json",
               R"({"weight_map": {"lm_head.weight": "of-before.safetensors"}})");
    CHECK(HfFolder(model).shape() == HfFolder(models / "llama").shape());
}

TEST_CASE("an index and the files that it names must agree") {
    const auto fault = [](const std::function<void(Json&)>& change) {
        const test::TempFolder folder;
        const std::filesystem::path path = copy_of("mistral", folder) / hf_index_name;
        Json index = parse_json(test::contents(path), "index");
        change(index["weight_map"]);
        test::fill(path, to_document(index));
        std::string message =
            test::message_of(ExitCode::bad_input, [&] { HfFolder opened(folder / "mistral"); });
        CHECK(message.starts_with(path.string()));
        return message;
    };
    const std::string head = "lm_head.weight";
    CHECK(test::contains(
        fault([&](Json& files) { files["more.weight"] = files.at(head); }),
        "places tensor more.weight in model-00003-of-00003.safetensors, which does not have it"));
    CHECK(test::contains(
        fault([](Json& files) { files.erase("model.norm.weight"); }),
        "does not place tensor model.norm.weight in model-00002-of-00003.safetensors, "));
}

TEST_CASE("a tied head in the file must have the embedding's values") {
    for (const bool changed : {false, true}) {
        const test::TempFolder folder;
        const std::filesystem::path model = copy_of("llama", folder);
        std::string config = read_file(model / "config.json", 1 << 20);
        const std::string_view untied = "\"tie_word_embeddings\": false";
        REQUIRE(config.find(untied) != std::string::npos);
        config.replace(config.find(untied), untied.size(), "\"tie_word_embeddings\": true");
        test::fill(model / "config.json", config);
        std::string weights = read_file(model / "model.safetensors", 1 << 24);
        const SafetensorsHeader tensors = SafetensorsFile(model / "model.safetensors").tensors();
        const SafetensorsEntry& embedding = tensors.find("model.embed_tokens.weight")->second;
        const SafetensorsEntry& head = tensors.find("lm_head.weight")->second;
        std::size_t data = 0;  // where it begins: after the length of the header, and the header
        std::memcpy(&data, weights.data(), 8);
        data += 8;
        const auto size = static_cast<std::size_t>(head.end - head.begin);
        const auto to = data + static_cast<std::size_t>(head.begin);
        weights.replace(to, size,
                        weights.substr(data + static_cast<std::size_t>(embedding.begin), size));
        if (changed) weights[to + size - 2] ^= 1;
        test::fill(model / "model.safetensors", weights);
        if (!changed) {
            CHECK(HfFolder(model).shape().tie_embeddings);
            CHECK(HfFolder(model).unused_tensors().empty());
            continue;
        }
        const std::string message =
            test::message_of(ExitCode::bad_input, [&] { HfFolder opened(model); });
        CHECK(test::contains(message, "tensor lm_head.weight differs from the embedding"));
        CHECK(test::contains(message, "set tie_word_embeddings to false"));
    }
}

TEST_CASE("a weight too large for fp16 is an error that names it") {
    const HfFolder folder(models / "llama");
    const test::TempFolder out;
    const std::string message = test::message_of(ExitCode::usage, [&] {
        write_hf_model(
            out.path(),
            {.model = folder.shape(), .ids = {}, .dtype = DType::f16, .max_shard_bytes = 1 << 20},
            [](const Shard&, std::span<float> to) { std::fill(to.begin(), to.end(), 65520.0F); });
    });
    CHECK(test::contains(message, "65520"));
    CHECK(test::contains(message, "--dtype bf16"));
}

}  // namespace
}  // namespace gptrain
