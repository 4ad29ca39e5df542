// The newer families as GGUF: what is in the file, and what llama.cpp has in its code.
#include "interop/gguf_families.h"

#include <functional>
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

void write(const HfFolder& folder, const std::filesystem::path& to, DType dtype) {
    write_gguf_model(
        to, {.model = folder.shape(), .tokenizer = {}, .name = "test", .dtype = dtype},
        [&](const Shard& part, std::span<float> values) { folder.read(part, values); });
}

TEST_CASE("a model of a newer family comes back from a GGUF file, bit for bit") {
    for (const std::string name :
         {"bloom", "cohere", "gemma", "gemma2", "glm4", "glm4_moe_partial", "gpt_bigcode",
          "gpt_oss", "llama_attention_biases", "phi", "phi3", "stablelm_parallel"}) {
        for (const DType dtype : {DType::f32, DType::bf16}) {
            INFO(name << " " << name_of(dtype));
            const test::TempFolder out;
            const HfFolder folder(models / name);
            write(folder, out / "model.gguf", dtype);
            const GgufModel back(out / "model.gguf", folder.shape());
            back.check(
                [&](const Shard& part, std::span<float> values) { folder.read(part, values); });
        }
    }
}

TEST_CASE("tensors of a newer family have llama.cpp's layout") {
    using Shape = std::vector<std::int64_t>;
    const test::TempFolder out;
    const auto file_of = [&](const std::string& name) {
        write(HfFolder(models / name), out / name, DType::f32);
        return GgufFile(out / name);
    };
    const GgufFile gpt_oss = file_of("gpt_oss");
    CHECK(gpt_oss.tensor("blk.1.attn_sinks.weight").shape == Shape{4});
    CHECK(gpt_oss.tensor("blk.1.ffn_gate_exps.weight").shape == Shape{4, 12, 24});
    CHECK(gpt_oss.tensor("blk.1.ffn_down_exps.bias").shape == Shape{4, 24});
    CHECK(gpt_oss.find_size("gpt-oss.attention.sliding_window") == 5);
    CHECK(gpt_oss.find_size("gpt-oss.context_length") == 32);
    const GgufFile phi3 = file_of("phi3");
    CHECK(phi3.tensor("blk.0.attn_qkv.weight").shape == Shape{64, 32});
    CHECK(phi3.tensor("blk.0.ffn_up.weight").shape == Shape{64, 32});
    CHECK(phi3.find_size("phi3.rope.dimension_count") == 6);
    CHECK(phi3.find_size("phi3.context_length") == 7);
    const GgufFile gemma2 = file_of("gemma2");
    CHECK(gemma2.find_number("gemma2.attn_logit_softcapping") == 2.0F);
    CHECK(gemma2.find_number("gemma2.final_logit_softcapping") == 3.0F);
    CHECK(gemma2.find_size("gemma2.context_length") == 32);
    const GgufFile phi = file_of("phi");
    CHECK(phi.tensor("output.bias").shape == Shape{40});
    const GgufFile bloom = file_of("bloom");
    CHECK(bloom.tensor("token_embd_norm.bias").shape == Shape{24});
    CHECK(file_of("cohere").find_number("command-r.logit_scale") == 1.0F);
    CHECK(file_of("stablelm_parallel").find_flag("stablelm.use_parallel_residual") == true);
}

TEST_CASE("what an architecture has otherwise in its code is an error that names the key") {
    const auto refused = [](const std::string& name,
                            const std::function<void(ModelShape&)>& change) {
        ModelShape model = HfFolder(models / name).shape();
        change(model);
        return test::message_of(ExitCode::usage, [&] { check_gguf_model(model); });
    };
    const auto as_it_is = [](ModelShape&) {};
    CHECK(test::contains(refused("gptj", as_it_is),
                         "llama.cpp has no architecture for a model of GPTJForCausalLM"));
    CHECK(test::contains(refused("opt", as_it_is), "OPTForCausalLM"));
    CHECK(test::contains(refused("gpt_neox", as_it_is), "model.activation gelu_erf"));
    CHECK(test::contains(refused("llama_geglu", as_it_is), "model.activation geglu"));
    CHECK(test::contains(refused("olmoe", as_it_is), "model.num_query_groups 2"));
    CHECK(test::contains(refused("olmo2", as_it_is), "model.head_dim 8"));
    CHECK(test::contains(refused("nemotron", as_it_is), "model.head_dim 8"));
    CHECK(test::contains(refused("smollm3", as_it_is), "model.unrotated_layers"));
    CHECK(test::contains(refused("gemma3", as_it_is), "model.full_attention_layers"));
    CHECK(test::contains(refused("gemma2", [](ModelShape& model) { model.logit_softcap.reset(); }),
                         "gemma2 of llama.cpp has no model.logit_softcap none"));
    CHECK(test::contains(
        refused("gemma2",
                [](ModelShape& model) { model.qkv_bias = true, model.attention_bias = true; }),
        "model.qkv_bias true"));
    const auto six_layers = [](ModelShape& model) {
        model.layers = 6;
        model.full_attention_layers = {5};
        model.window_rope_theta = 1e4;
    };
    CHECK(refused("gemma3", six_layers).empty());
    CHECK(test::contains(refused("gemma3",
                                 [&](ModelShape& model) {
                                     six_layers(model);
                                     model.window_rope_theta = 100;
                                 }),
                         "model.rope_theta with window 100"));
}

TEST_CASE("a file's context ends at windows that are not those of the code") {
    ModelShape model = HfFolder(models / "gemma2").shape();
    CHECK(gguf_context(model) == 32);
    model.full_attention_layers = {0};
    CHECK(gguf_context(model) == 5);
    model.full_attention_layers = {0, 1};
    CHECK(gguf_context(model) == 32);
}

}  // namespace
}  // namespace gptrain
