"""Small random models of the families of transformers that docs/interop.md lists after those of
make_hf_models.py: one for each, with every setting that the family adds."""

import torch
import transformers as tf

SIZES = dict(vocab_size=40, hidden_size=24, intermediate_size=32, num_hidden_layers=2,
             num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=32,
             bos_token_id=1, eos_token_id=2, pad_token_id=None)
UNGROUPED = {key: value for key, value in SIZES.items() if key != "num_key_value_heads"}
WIDE = dict(hidden_size=32)  # heads of 8, where a class has only hidden_size / heads
GPT2_SIZES = dict(vocab_size=40, n_embd=32, n_layer=2, n_head=4, n_inner=48, n_positions=32,
                  bos_token_id=1, eos_token_id=2, pad_token_id=None)
WINDOWS = dict(layer_types=["sliding_attention", "full_attention"], sliding_window=5)


def rope(theta, **more):
    return dict(rope_parameters=dict(rope_theta=theta, rope_type="default", **more))


def model(kind, *settings, **more):
    merged = {}
    for one in (*settings, more):
        merged.update(one)
    return kind(kind.config_class(**merged))


FAMILIES = {
    "olmo2": lambda: model(tf.Olmo2ForCausalLM, SIZES, head_dim=8, **rope(1000.0)),
    "olmoe": lambda: model(tf.OlmoeForCausalLM, SIZES, WIDE, intermediate_size=12, num_experts=6,
                           num_experts_per_tok=2),
    "phi3": lambda: model(tf.Phi3ForCausalLM, SIZES, WIDE, sliding_window=7,
                          **rope(1000.0, partial_rotary_factor=0.75)),
    "phi": lambda: model(tf.PhiForCausalLM, SIZES, WIDE,
                         **rope(1000.0, partial_rotary_factor=0.5)),
    "gpt_neox": lambda: model(tf.GPTNeoXForCausalLM, UNGROUPED, WIDE,
                              **rope(1000.0, partial_rotary_factor=0.5)),
    "gpt_neox_sequential": lambda: model(tf.GPTNeoXForCausalLM, UNGROUPED, WIDE,
                                         use_parallel_residual=False, attention_bias=False,
                                         **rope(1000.0, partial_rotary_factor=0.25)),
    "gemma": lambda: model(tf.GemmaForCausalLM, SIZES, head_dim=8, num_key_value_heads=1),
    "gemma2": lambda: model(tf.Gemma2ForCausalLM, SIZES, WINDOWS, head_dim=8,
                            query_pre_attn_scalar=8, attn_logit_softcapping=2.0,
                            final_logit_softcapping=3.0),
    "gemma3": lambda: model(tf.Gemma3ForCausalLM, SIZES, WINDOWS, head_dim=8,
                            query_pre_attn_scalar=8, num_hidden_layers=3,
                            layer_types=["sliding_attention", "full_attention",
                                         "sliding_attention"],
                            rope_parameters=dict(
                                full_attention=dict(rope_type="linear", factor=4.0,
                                                    rope_theta=5000.0),
                                sliding_attention=dict(rope_type="default", rope_theta=100.0))),
    "smollm3": lambda: model(tf.SmolLM3ForCausalLM, SIZES, num_hidden_layers=3,
                             no_rope_layers=[1, 0, 1], **rope(1000.0)),
    "gpt_oss": lambda: model(tf.GptOssForCausalLM, SIZES, WINDOWS, head_dim=8,
                             intermediate_size=12, num_local_experts=4, num_experts_per_tok=2,
                             **rope(1000.0)),
    "nemotron": lambda: model(tf.NemotronForCausalLM, SIZES, head_dim=8,
                              **rope(1000.0, partial_rotary_factor=0.5)),
    "falcon": lambda: model(tf.FalconForCausalLM, UNGROUPED, WIDE, new_decoder_architecture=True,
                            num_kv_heads=2, ffn_hidden_size=48, tie_word_embeddings=False,
                            **rope(1000.0)),
    "falcon_one_norm": lambda: model(tf.FalconForCausalLM, UNGROUPED, WIDE, bias=True,
                                     **rope(1000.0)),
    "bloom": lambda: model(tf.BloomForCausalLM, vocab_size=40, hidden_size=24, n_layer=2, n_head=6,
                           seq_length=32, bos_token_id=1, eos_token_id=2, pad_token_id=None),
    "gptj": lambda: model(tf.GPTJForCausalLM, GPT2_SIZES, rotary_dim=4),
    "opt": lambda: model(tf.OPTForCausalLM, UNGROUPED, ffn_dim=40, word_embed_proj_dim=24,
                         dropout=0.0),
    "gpt_bigcode": lambda: model(tf.GPTBigCodeForCausalLM, GPT2_SIZES),
    "glm": lambda: model(tf.GlmForCausalLM, SIZES, head_dim=8,
                         **rope(1000.0, partial_rotary_factor=0.5)),
    "glm4": lambda: model(tf.Glm4ForCausalLM, SIZES, head_dim=8,
                          **rope(1000.0, partial_rotary_factor=0.5)),
    "cohere": lambda: model(tf.CohereForCausalLM, SIZES, WIDE, logit_scale=1.0, **rope(1000.0)),
    "cohere2": lambda: model(tf.Cohere2ForCausalLM, SIZES, WIDE, WINDOWS, logit_scale=1.0,
                             **rope(1000.0)),
    # Settings of classes that came before, which make_hf_models.py leaves at their usual values.
    "stablelm_parallel": lambda: model(tf.StableLmForCausalLM, SIZES, WIDE,
                                       use_parallel_residual=True, use_qkv_bias=True,
                                       **rope(1000.0, partial_rotary_factor=0.25)),
    "glm4_moe_partial": lambda: model(tf.Glm4MoeForCausalLM, SIZES, head_dim=8,
                                      moe_intermediate_size=12, n_routed_experts=4,
                                      num_experts_per_tok=2, n_shared_experts=1, n_group=1,
                                      topk_group=1, first_k_dense_replace=1, num_mtp_layers=0,
                                      **rope(1000.0, partial_rotary_factor=0.5)),
    "llama_attention_biases": lambda: model(tf.LlamaForCausalLM, SIZES, attention_bias=True),
    "llama_geglu": lambda: model(tf.LlamaForCausalLM, SIZES, hidden_act="gelu_pytorch_tanh"),
}
# Our last norm takes over the factor of logits, so weights and gradients are not those of the file.
LOGITS_ONLY = {
    "cohere_scaled": lambda: model(tf.CohereForCausalLM, SIZES, WIDE, logit_scale=0.25,
                                   **rope(1000.0)),
}

# Families whose norms hold what is added to 1.
LESS_1 = ("gemma", "nemotron")


def randomise(net, name):
    """Weights large enough that every one of them shows in the logits; norms are around 1."""
    for key, weight in net.named_parameters():
        with torch.no_grad():
            weight.normal_(0, 0.2)
            is_norm = "norm" in key or "ln_" in key
            if is_norm and key.endswith("weight") and not name.startswith(LESS_1):
                weight.add_(1)
            if "embed_positions" in key:
                weight[:2] = 0  # of no position
    for key, buffer in net.named_buffers():
        if key.endswith("e_score_correction_bias"):
            buffer.normal_(0, 0.2)


def make(name, seed=1):
    """A model of a family, whose weights depend on the seed alone."""
    torch.manual_seed(seed)
    net = {**FAMILIES, **LOGITS_ONLY}[name]().eval()
    randomise(net, name)
    return net
