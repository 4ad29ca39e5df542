// Folders that bitsandbytes has quantised (make_nf4_models.py).
#include "interop/bitsandbytes.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "base/file.h"
#include "catch.h"
#include "comm/mesh.h"
#include "cpu/cpu_backend.h"
#include "infer/logits.h"
#include "interop/hf_folder.h"
#include "spec/make_plan.h"
#include "support/temp_folder.h"

namespace gptrain::test {
namespace {

const std::filesystem::path models = std::filesystem::path(GPTRAIN_TEST_DATA) / "models";

struct FileTensor {
    std::string dtype;
    std::vector<std::int64_t> shape;
    std::string bytes;
};
using FileTensors = std::map<std::string, FileTensor>;

FileTensors tensors_in(const std::filesystem::path& file) {
    const SafetensorsFile opened(file);
    FileTensors tensors;
    for (const auto& [name, entry] : opened.tensors()) {
        const auto bytes = opened.bytes_of(entry);
        tensors[name] = {
            entry.dtype, entry.shape, {reinterpret_cast<const char*>(bytes.data()), bytes.size()}};
    }
    return tensors;
}

void write(const std::filesystem::path& file, const FileTensors& tensors) {
    Json header = Json::object();
    std::string data;
    for (const auto& [name, tensor] : tensors) {
        const std::size_t begin = data.size();
        data += tensor.bytes;
        header[name] = {{"dtype", tensor.dtype},
                        {"shape", tensor.shape},
                        {"data_offsets", {begin, data.size()}}};
    }
    const std::string json = to_line(header);
    const std::uint64_t size = json.size();
    std::string bytes(reinterpret_cast<const char*>(&size), sizeof size);
    fill(file, bytes + json + data);
}

std::vector<float> floats_of(const std::string& bytes) {
    std::vector<float> values(bytes.size() / sizeof(float));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
}

std::string text_of(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::vector<float> values_of(const HfFolder& folder, const Shard& tensor) {
    std::vector<float> values(static_cast<std::size_t>(tensor.elements()));
    folder.read(tensor, values);
    return values;
}

const std::string q = "model.layers.0.self_attn.q_proj.weight";
const std::string state = q + ".quant_state.bitsandbytes__nf4";

/// The error of a folder of nested NF4 after a change.
std::string fault(const std::function<void(FileTensors&)>& change) {
    const TempFolder folder;
    std::filesystem::copy(models / "llama_nf4_double" / "config.json", folder / "config.json");
    FileTensors tensors = tensors_in(models / "llama_nf4_double" / "model.safetensors");
    change(tensors);
    write(folder / "model.safetensors", tensors);
    try {
        const HfFolder opened(folder.path());
    } catch (const Error& error) {
        CHECK(error.code() == ExitCode::bad_input);
        return error.what();
    }
    return "(accepted)";
}

void set_state(FileTensors& tensors, const std::string& key, const Json& value) {
    FileTensor& tensor = tensors.at(state);
    Json json = parse_json(tensor.bytes, "state");
    json[key] = value;
    tensor.bytes = to_line(json);
    tensor.shape = {std::ssize(tensor.bytes)};
}

std::string config_fault(const Json& config) {
    try {
        check_quantization_config(config, "config.json");
    } catch (const Error& error) {
        return error.what();
    }
    return "(accepted)";
}

bool holds(const std::string& all, const std::string& part) {
    INFO(all);
    return all.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("folders of bitsandbytes compute as with transformers") {
    const std::string name = GENERATE("llama_nf4", "llama_nf4_double");
    const HfFolder folder(models / name);
    CHECK(folder.unused_tensors().empty());
    const FileTensors expected = tensors_in(models / name / "logits.safetensors");
    const std::vector<float> tokens = floats_of(expected.at("ids").bytes);
    const std::vector<float> theirs = floats_of(expected.at("logits").bytes);
    const std::vector<std::int32_t> ids(tokens.begin(), tokens.end());
    const RunPlan plan = make_plan(folder.spec(), {});
    const auto backend = cpu::make_backend();
    const Mesh mesh = one_rank_mesh();
    const auto ours = compute_logits(*backend, mesh, plan, ids, [&](InferenceModel& model) {
        model.load([&](const Shard& part, std::span<float> to) { folder.read(part, to); });
    });
    REQUIRE(ours.size() == theirs.size());
    float largest = 0;
    for (std::size_t i = 0; i < ours.size(); ++i)
        largest = std::max(largest, std::abs(theirs[i]));
    for (std::size_t i = 0; i < ours.size(); ++i)
        CHECK(std::abs(ours[i] - theirs[i]) <= 1e-5F * largest);
}

TEST_CASE(
    "the codes and scales of bitsandbytes are those of our conversion, and taken as they are") {
    const HfFolder plain(models / "llama");
    const HfFolder quantised(models / "llama_nf4");
    const HfFolder nested(models / "llama_nf4_double");
    const FileTensors stored = tensors_in(models / "llama_nf4_double" / "model.safetensors");
    int matrices = 0;
    for (const Shard& tensor : whole_tensors(plain.shape())) {
        const std::optional<Nf4View> theirs = quantised.nf4_matrix(tensor);
        CHECK(theirs.has_value() == nested.nf4_matrix(tensor).has_value());
        if (!theirs) continue;
        ++matrices;
        const std::vector<float> values = values_of(plain, tensor);
        const Nf4Bytes ours = to_nf4(values, false);
        CHECK(text_of(theirs->codes) == text_of(ours.codes));
        CHECK(text_of(theirs->scales) == text_of(ours.scales));
        CHECK(text_of(nested.nf4_matrix(tensor)->codes) == text_of(ours.codes));
    }
    CHECK(matrices == 14);
    const Nf4View view = nested.nf4_matrix(Shard::whole("h.0.attn.q.weight", {32, 16})).value();
    CHECK(text_of(view.codes) == stored.at(q).bytes);
    CHECK(text_of(view.scales) == stored.at(q + ".absmax").bytes);
    const std::vector<float> map = floats_of(stored.at(q + ".nested_quant_map").bytes);
    CHECK(std::vector<float>(view.factors.begin(), view.factors.begin() + 256) == map);
    CHECK(map == std::vector<float>(nf4_scale_map().begin(), nf4_scale_map().end()));
}

TEST_CASE("a faulty folder of bitsandbytes has one error that names the fault") {
    CHECK(fault([](FileTensors&) {}) == "(accepted)");
    CHECK(holds(fault([](FileTensors& all) { all.erase(q + ".absmax"); }),
                q + " is in NF4, but " + q + ".absmax is missing"));
    CHECK(holds(fault([](FileTensors& all) { all.erase(state); }),
                q + " has dtype U8, but there is no " + state));
    CHECK(holds(fault([](FileTensors& all) { all.erase(q + ".nested_quant_map"); }),
                ".nested_quant_map is missing"));
    CHECK(holds(fault([](FileTensors& all) {
                    all[q + ".absmax"] = {"U8", {7}, "1234567"};
                }),
                ".absmax has 7 bytes of scales, but the shape in " + state + " needs 8"));
    CHECK(holds(fault([](FileTensors& all) {
                    all[q + ".absmax"] = {"F32", {8}, std::string(32, '\0')};
                }),
                ".absmax has dtype F32, but it must have U8"));
    CHECK(holds(fault([](FileTensors& all) {
                    all[q + ".nested_absmax"] = {"F32", {2}, std::string(8, '\0')};
                }),
                ".nested_absmax has 2 factors, but"));
    CHECK(holds(fault([](FileTensors& all) {
                    all[q].bytes.pop_back(), all[q].shape = {255, 1};
                }),
                q + " has 255 bytes of codes, but"));
    CHECK(holds(fault([](FileTensors& all) { all.at(q + ".quant_map").bytes[0] ^= 1; }),
                ".quant_map does not have the 16 values of NF4"));
    CHECK(holds(fault([](FileTensors& all) {
                    all[q + ".nested_quant_map"] = {"F32", {2}, std::string(8, '\0')};
                }),
                ".nested_quant_map has 2 values, but"));
    CHECK(holds(fault([](FileTensors& all) {
                    set_state(all, "shape", {16, 32});
                }),
                q + " has shape [16, 32], but with config.json it must have [32, 16]"));
    CHECK(holds(fault([](FileTensors& all) { set_state(all, "blocksize", 128); }),
                "'blocksize' is 128; gptrain reads NF4 of bitsandbytes in blocks of 64"));
    CHECK(holds(fault([](FileTensors& all) { set_state(all, "nested_blocksize", 64); }),
                "'nested_blocksize' is 64"));
    CHECK(holds(fault([](FileTensors& all) { set_state(all, "quant_type", "fp4"); }),
                "'quant_type' is \"fp4\""));
    CHECK(holds(fault([](FileTensors& all) { set_state(all, "nested_offset", "x"); }),
                "nested_offset"));
    CHECK(holds(fault([](FileTensors& all) { set_state(all, "nested_offset", 1e300); }),
                "'nested_offset' is too large for fp32"));
    CHECK(holds(fault([](FileTensors& all) {
                    set_state(all, "shape", {0, 16});
                }),
                "'shape' has the size 0"));
    CHECK(holds(fault([](FileTensors& all) {
                    set_state(all, "shape", {1 << 24, 1 << 24});
                }),
                "'shape' has too many elements"));
    CHECK(holds(
        fault([](FileTensors& all) { all[q + ".quant_state.bitsandbytes__fp4"] = all.at(state); }),
        q + " is in fp4"));
}

TEST_CASE("other quantisations are refused by name") {
    const Json good = {
        {"quant_method", "bitsandbytes"}, {"load_in_4bit", true}, {"bnb_4bit_quant_type", "nf4"}};
    CHECK(config_fault(good) == "(accepted)");
    const auto with = [&](const std::string& key, const Json& value) {
        Json config = good;
        config[key] = value;
        return config_fault(config);
    };
    CHECK(holds(with("quant_method", "gptq"), "'quant_method' is \"gptq\"; gptrain reads NF4"));
    CHECK(holds(with("quant_method", "awq"), "'quant_method' is \"awq\""));
    CHECK(holds(with("quant_method", nullptr), "'quant_method' is missing"));
    CHECK(holds(with("load_in_4bit", false), "'load_in_4bit' is false; gptrain"));
    CHECK(holds(with("bnb_4bit_quant_type", "fp4"), "'bnb_4bit_quant_type' is \"fp4\""));
    CHECK(holds(with("bnb_4bit_quant_type", nullptr), "'bnb_4bit_quant_type' is missing"));
}

}  // namespace gptrain::test
