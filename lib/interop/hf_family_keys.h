// The keys of config.json that only some classes of transformers have.
#pragma once

#include "interop/hf_family.h"

namespace gptrain {

namespace hf_keys {

void read_gpt2(const HfMembers& config, ModelSpec& model);
void write_gpt2(const ModelShape& model, Json& config);
void read_llama(const HfMembers& config, ModelSpec& model);
void read_mistral(const HfMembers& config, ModelSpec& model);
void write_mistral(const ModelShape& model, Json& config);
void read_qwen(const HfMembers& config, ModelSpec& model);
void write_qwen(const ModelShape& model, Json& config);
void read_stablelm(const HfMembers& config, ModelSpec& model);
void write_stablelm(const ModelShape& model, Json& config);
void read_window(const HfMembers& config, ModelSpec& model);
void write_window(const ModelShape& model, Json& config);
void write_starcoder2(const ModelShape& model, Json& config);
void read_qwen2_moe(const HfMembers& config, ModelSpec& model);
void read_qwen3_moe(const HfMembers& config, ModelSpec& model);
void write_qwen3_moe(const ModelShape& model, Json& config);
void read_olmoe(const HfMembers& config, ModelSpec& model);
void read_gpt_oss(const HfMembers& config, ModelSpec& model);
void write_gpt_oss(const ModelShape& model, Json& config);
void write_phi3(const ModelShape& model, Json& config);
void read_phi(const HfMembers& config, ModelSpec& model);
void write_phi(const ModelShape& model, Json& config);
void write_gpt_neox(const ModelShape& model, Json& config);
void read_gptj(const HfMembers& config, ModelSpec& model);
void write_gptj(const ModelShape& model, Json& config);
void read_falcon(const HfMembers& config, ModelSpec& model);
void write_falcon(const ModelShape& model, Json& config);
bool fits_falcon(const ModelShape& model);
void read_bloom(const HfMembers& config, ModelSpec& model);
void write_bloom(const ModelShape& model, Json& config);
void read_opt(const HfMembers& config, ModelSpec& model);
void write_opt(const ModelShape& model, Json& config);
void read_gpt_bigcode(const HfMembers& config, ModelSpec& model);
void write_gpt_bigcode(const ModelShape& model, Json& config);
void read_gemma(const HfMembers& config, ModelSpec& model);
void read_gemma2(const HfMembers& config, ModelSpec& model);
void write_gemma2(const ModelShape& model, Json& config);
void read_gemma3(const HfMembers& config, ModelSpec& model);
void write_gemma3(const ModelShape& model, Json& config);
void read_smollm3(const HfMembers& config, ModelSpec& model);
void write_smollm3(const ModelShape& model, Json& config);
void read_cohere(const HfMembers& config, ModelSpec& model);
void write_cohere(const ModelShape& model, Json& config);
void read_cohere2(const HfMembers& config, ModelSpec& model);
void write_cohere2(const ModelShape& model, Json& config);

}  // namespace hf_keys

constexpr HfKeys gpt2_keys = {.read = hf_keys::read_gpt2, .write = hf_keys::write_gpt2};
constexpr HfKeys llama_keys = {.read = hf_keys::read_llama};
constexpr HfKeys mistral_keys = {.read = hf_keys::read_mistral, .write = hf_keys::write_mistral};
constexpr HfKeys qwen_keys = {.read = hf_keys::read_qwen, .write = hf_keys::write_qwen};
constexpr HfKeys stablelm_keys = {.read = hf_keys::read_stablelm, .write = hf_keys::write_stablelm};
constexpr HfKeys window_keys = {.read = hf_keys::read_window, .write = hf_keys::write_window};
constexpr HfKeys starcoder2_keys = {.read = hf_keys::read_window,
                                    .write = hf_keys::write_starcoder2};
constexpr HfKeys qwen2_moe_keys = {.read = hf_keys::read_qwen2_moe, .write = hf_keys::write_qwen};
constexpr HfKeys qwen3_moe_keys = {.read = hf_keys::read_qwen3_moe,
                                   .write = hf_keys::write_qwen3_moe};
constexpr HfKeys olmoe_keys = {.read = hf_keys::read_olmoe};
constexpr HfKeys gpt_oss_keys = {.read = hf_keys::read_gpt_oss, .write = hf_keys::write_gpt_oss};
constexpr HfKeys phi3_keys = {.read = hf_keys::read_window, .write = hf_keys::write_phi3};
constexpr HfKeys phi_keys = {.read = hf_keys::read_phi, .write = hf_keys::write_phi};
constexpr HfKeys hidden_dropout_keys = {.write = hf_keys::write_gpt_neox};
constexpr HfKeys gptj_keys = {.read = hf_keys::read_gptj, .write = hf_keys::write_gptj};
constexpr HfKeys falcon_keys = {
    .read = hf_keys::read_falcon, .write = hf_keys::write_falcon, .fits = hf_keys::fits_falcon};
constexpr HfKeys bloom_keys = {.read = hf_keys::read_bloom, .write = hf_keys::write_bloom};
constexpr HfKeys opt_keys = {.read = hf_keys::read_opt, .write = hf_keys::write_opt};
constexpr HfKeys gpt_bigcode_keys = {.read = hf_keys::read_gpt_bigcode,
                                     .write = hf_keys::write_gpt_bigcode};
constexpr HfKeys gemma_keys = {.read = hf_keys::read_gemma};
constexpr HfKeys gemma2_keys = {.read = hf_keys::read_gemma2, .write = hf_keys::write_gemma2};
constexpr HfKeys gemma3_keys = {.read = hf_keys::read_gemma3, .write = hf_keys::write_gemma3};
constexpr HfKeys smollm3_keys = {.read = hf_keys::read_smollm3, .write = hf_keys::write_smollm3};
constexpr HfKeys cohere_keys = {.read = hf_keys::read_cohere, .write = hf_keys::write_cohere};
constexpr HfKeys cohere2_keys = {.read = hf_keys::read_cohere2, .write = hf_keys::write_cohere2};

}  // namespace gptrain
