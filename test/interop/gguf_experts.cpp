// Models with experts as GGUF. That llama.cpp computes the same is shown outside of this suite
// (docs/interop.md); here the files are taken apart.
#include "interop/gguf_experts.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "catch.h"
#include "interop/export_gguf.h"
#include "interop/gguf_model.h"
#include "interop/hf_folder.h"
#include "support/temp_folder.h"

namespace gptrain {
namespace {

const std::filesystem::path models = std::filesystem::path(GPTRAIN_TEST_DATA) / "models";

/// A folder's model, which a test may change.
class Model {
public:
    explicit Model(const std::string& name) : folder_(models / name), shape_(folder_.shape()) {}

    ModelShape& shape() { return shape_; }

    WeightReader weights() const {
        return [this](const Shard& part, std::span<float> to) { folder_.read(part, to); };
    }

    void write(const std::filesystem::path& to, DType dtype = DType::f32) const {
        write_gguf_model(to, {.model = shape_, .tokenizer = {}, .name = "test", .dtype = dtype},
                         weights());
    }

private:
    HfFolder folder_;
    ModelShape shape_;
};

std::vector<float> floats_of(std::span<const std::byte> bytes) {
    std::vector<float> values(bytes.size() / sizeof(float));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
}

TEST_CASE("a model with experts comes back from a GGUF file, bit for bit") {
    for (const std::string name :
         {"mixtral", "mixtral_fused", "qwen2_moe_all", "qwen3_moe_all", "glm4_moe"}) {
        for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
            INFO(name << " " << name_of(dtype));
            const test::TempFolder out;
            Model model(name);
            model.write(out / "model.gguf", dtype);
            const GgufModel back(out / "model.gguf", model.shape());
            back.check(model.weights());
            const auto fault = [&](const std::string& tensor) {
                return test::message_of(ExitCode::bug, [&] {
                    back.check([&](const Shard& part, std::span<float> to) {
                        model.weights()(part, to);
                        if (part.name.ends_with(tensor)) to.back() += 1;
                    });
                });
            };
            for (const std::string tensor : {"experts.proj.weight", "router.weight"})
                CHECK(
                    test::contains(fault(tensor), tensor + " was not read back as it was written"));
        }
    }
}

TEST_CASE("the matrices of all experts of a layer are one tensor, in their order") {
    const test::TempFolder out;
    Model("mixtral").write(out / "model.gguf");
    const GgufFile file(out / "model.gguf");
    const SafetensorsFile source(models / "mixtral" / "model.safetensors");
    const auto theirs = [&](const std::string& name) {
        return floats_of(
            source.bytes_of(source.tensors().find("model.layers.1." + name + ".weight")->second));
    };
    const auto check = [&](const std::string& name, const std::string& matrix,
                           const std::vector<std::int64_t>& shape) {
        INFO(name);
        CHECK(file.tensor(name).shape == shape);
        std::vector<float> all;
        for (int expert = 0; expert < 4; ++expert) {
            const auto one = theirs(text("block_sparse_moe.experts.", expert, ".", matrix));
            all.insert(all.end(), one.begin(), one.end());
        }
        CHECK(floats_of(file.tensor(name).bytes) == all);
    };
    check("blk.1.ffn_gate_exps.weight", "w1", {4, 24, 16});
    check("blk.1.ffn_up_exps.weight", "w3", {4, 24, 16});
    check("blk.1.ffn_down_exps.weight", "w2", {4, 16, 24});
    CHECK(file.tensor("blk.1.ffn_gate_inp.weight").shape == std::vector<std::int64_t>{4, 16});
    CHECK(floats_of(file.tensor("blk.1.ffn_gate_inp.weight").bytes) ==
          theirs("block_sparse_moe.gate"));
    // Row 1 of q is the first of the second half of a head, as in Llama.
    const auto q = floats_of(file.tensor("blk.1.attn_q.weight").bytes);
    const auto source_q = theirs("self_attn.q_proj");
    CHECK(std::equal(q.begin() + 16, q.begin() + 32, source_q.begin() + 4 * 16));
}

TEST_CASE("routers and biases are fp32, and experts have the dtype of the file") {
    const test::TempFolder out;
    const auto file_of = [&](const std::string& name) {
        Model(name).write(out / name, DType::bf16);
        return GgufFile(out / name);
    };
    const GgufFile qwen = file_of("qwen2_moe_all");
    const auto check = [](const GgufFile& file, const std::string& name, DType dtype,
                          const std::vector<std::int64_t>& shape) {
        INFO(name);
        CHECK(file.tensor(name).dtype == dtype);
        CHECK(file.tensor(name).shape == shape);
    };
    check(qwen, "blk.0.ffn_gate_inp.weight", DType::f32, {4, 16});
    check(qwen, "blk.0.ffn_gate_inp_shexp.weight", DType::f32, {1, 16});
    check(qwen, "blk.0.ffn_up_exps.weight", DType::bf16, {4, 12, 16});
    check(qwen, "blk.0.ffn_up_shexp.weight", DType::bf16, {20, 16});
    check(qwen, "blk.0.ffn_gate_shexp.weight", DType::bf16, {20, 16});
    check(qwen, "blk.0.ffn_down_shexp.weight", DType::bf16, {16, 20});
    check(qwen, "blk.0.ffn_norm.weight", DType::f32, {16});
    const GgufFile glm = file_of("glm4_moe");
    check(glm, "blk.0.ffn_up.weight", DType::bf16, {24, 16});
    check(glm, "blk.0.post_attention_norm.weight", DType::f32, {16});
    check(glm, "blk.2.ffn_gate_inp.weight", DType::f32, {8, 16});
    check(glm, "blk.2.exp_probs_b.bias", DType::f32, {8});
    check(glm, "blk.2.ffn_down_exps.weight", DType::bf16, {8, 16, 12});
    check(glm, "blk.2.ffn_down_shexp.weight", DType::bf16, {16, 24});
}

TEST_CASE("a file has what llama.cpp needs where the model lacks it") {
    const test::TempFolder out;
    Model glm("glm4_moe");
    glm.shape().experts->balance.bias_rate.reset();
    glm.write(out / "glm");
    CHECK(floats_of(GgufFile(out / "glm").tensor("blk.1.exp_probs_b.bias").bytes) ==
          std::vector<float>(8, 0));
    Model qwen("qwen2_moe_all");
    CHECK(qwen.shape().tie_embeddings);
    qwen.write(out / "qwen");
    const GgufFile file(out / "qwen");
    CHECK(floats_of(file.tensor("output.weight").bytes) ==
          floats_of(file.tensor("token_embd.weight").bytes));
}

TEST_CASE("the keys of experts are those that llama.cpp reads") {
    const auto file_of = [](const Model& model) {
        const test::TempFolder out;
        model.write(out / "model.gguf");
        return GgufFile(out / "model.gguf");
    };
    const GgufFile mixtral = file_of(Model("mixtral"));
    CHECK(mixtral.find_text("general.architecture") == "llama");
    CHECK(mixtral.find_size("llama.expert_count") == 4);
    CHECK(mixtral.find_size("llama.expert_used_count") == 2);
    CHECK(mixtral.find_size("llama.feed_forward_length") == 24);
    CHECK(mixtral.find_size("llama.context_length") == 6);
    Model wide("mixtral");
    wide.shape().ffn = 100;
    CHECK(file_of(wide).find_size("llama.feed_forward_length") == 24);

    const GgufFile qwen2 = file_of(Model("qwen2_moe_all"));
    CHECK(qwen2.find_text("general.architecture") == "qwen2moe");
    CHECK(qwen2.find_size("qwen2moe.expert_count") == 4);
    CHECK(qwen2.find_size("qwen2moe.expert_feed_forward_length") == 12);
    CHECK(qwen2.find_size("qwen2moe.expert_shared_feed_forward_length") == 20);
    const GgufFile qwen3 = file_of(Model("qwen3_moe_all"));
    CHECK(qwen3.find_text("general.architecture") == "qwen3moe");
    CHECK(qwen3.find_size("qwen3moe.expert_used_count") == 3);
    CHECK(qwen3.find_size("qwen3moe.expert_feed_forward_length") == 12);
    CHECK(!qwen3.find_size("qwen3moe.expert_shared_feed_forward_length"));

    const GgufFile glm = file_of(Model("glm4_moe"));
    CHECK(glm.find_text("general.architecture") == "glm4moe");
    CHECK(glm.find_size("glm4moe.feed_forward_length") == 24);
    CHECK(glm.find_size("glm4moe.expert_feed_forward_length") == 12);
    CHECK(glm.find_size("glm4moe.expert_shared_count") == 2);
    CHECK(glm.find_size("glm4moe.leading_dense_block_count") == 1);
    CHECK(glm.find_size("glm4moe.expert_gating_func") == 2);
    CHECK(glm.find_size("glm4moe.expert_group_count") == 4);
    CHECK(glm.find_size("glm4moe.expert_group_used_count") == 2);
    CHECK(glm.find_flag("glm4moe.expert_weights_norm") == true);
    CHECK(glm.find_number("glm4moe.expert_weights_scale") == 2.5F);
    Model all_groups("glm4_moe");
    all_groups.shape().experts->router.groups->keep = 4;
    CHECK(!file_of(all_groups).find_size("glm4moe.expert_group_count"));
}

TEST_CASE("a file whose experts are not those of the model is an error that names the key") {
    const test::TempFolder out;
    Model model("glm4_moe");
    model.write(out / "model.gguf");
    const auto fault = [&](const auto& change) {
        ModelShape other = model.shape();
        change(*other.experts);
        return test::message_of(
            ExitCode::bug, [&] { GgufModel(out / "model.gguf", other).check(model.weights()); });
    };
    CHECK(test::contains(fault([](ExpertsSpec& experts) { experts.router.normalize = false; }),
                         "glm4moe.expert_weights_norm false was read back as true"));
    CHECK(test::contains(fault([](ExpertsSpec& experts) { experts.router.scale = 1; }),
                         "glm4moe.expert_weights_scale 1 was read back as 2.5"));
    CHECK(test::contains(fault([](ExpertsSpec& experts) { experts.per_token = 3; }),
                         "glm4moe.expert_used_count 3 was read back as 2"));
}

TEST_CASE("experts that llama.cpp has not are an error that names the key") {
    const auto refused = [](const std::string& name, const auto& change) {
        Model model(name);
        change(model.shape());
        return test::message_of(ExitCode::usage, [&] { check_gguf_model(model.shape()); });
    };
    const auto as_it_is = [](ModelShape&) {};
    const auto text_of = [](const std::string& architecture, const std::string& what) {
        return "the architecture " + architecture + " of llama.cpp has no " + what +
               "; export with --format hf";
    };
    for (const char* name : {"mixtral", "qwen2_moe_all", "qwen3_moe_all", "glm4_moe"})
        CHECK(refused(name, as_it_is).empty());
    const std::string left_out = "model.experts.layers that leave out a layer";
    CHECK(refused("qwen2_moe", as_it_is) == text_of("qwen2moe", left_out));
    CHECK(refused("qwen3_moe", as_it_is) == text_of("qwen3moe", left_out));
    const auto turn = [](ModelShape& model) {
        model.experts->router.normalize = !model.experts->router.normalize;
    };
    CHECK(refused("qwen2_moe_all", turn) ==
          text_of("qwen2moe", "model.experts.router.normalize true"));
    CHECK(refused("qwen3_moe_all", turn) ==
          text_of("qwen3moe", "model.experts.router.normalize false"));
    CHECK(refused("glm4_moe", turn).empty());
    CHECK(test::contains(
        refused("qwen2_moe_all", [](ModelShape& model) { model.head_dim = 8; }),
        "qwen2moe of llama.cpp has no model.head_dim 8: it needs model.hidden_size /"));
    CHECK(refused("mixtral", [](ModelShape& model) { model.experts->count = 1025; }) ==
          text_of("llama", "model.experts.count 1025, at most 1024"));
    const auto llama3 = [](ModelShape& model) {
        model.rope_scaling = RopeScaling{.kind = RopeScalingKind::llama3, .factor = 8};
    };
    CHECK(refused("mixtral", llama3).empty());
    CHECK(test::contains(refused("glm4_moe", llama3),
                         "glm4moe of llama.cpp has no model.rope_scaling of type llama3"));
}

}  // namespace
}  // namespace gptrain
