"""The models and their optimizers, under the keys of the run spec."""

GPT2 = dict(
    num_layers=2, hidden_size=24, num_attention_heads=4, num_query_groups=4, head_dim=6,
    ffn_hidden_size=80, vocab_size=67, max_position_embeddings=20, position_embedding="learned",
    rope_theta=10000.0, normalization="layernorm", norm_eps=1e-5, activation="gelu", bias=1,
    tie_embeddings=1, seq_length=16, micro_batch_size=3, lr=1e-2, beta1=0.9, beta2=0.95, eps=1e-4,
    weight_decay=0.1, clip_grad=1.5, lr_kind="cosine", warmup_steps=3, decay_steps=8, min_lr=1e-3)

LLAMA = dict(
    num_layers=2, hidden_size=24, num_attention_heads=4, num_query_groups=2, head_dim=8,
    ffn_hidden_size=40, vocab_size=67, max_position_embeddings=16, position_embedding="rope",
    rope_theta=500.0, normalization="rmsnorm", norm_eps=1e-6, activation="swiglu", bias=0,
    tie_embeddings=0, seq_length=16, micro_batch_size=3, lr=5e-3, beta1=0.8, beta2=0.99, eps=1e-4,
    weight_decay=0.2, clip_grad=0.0, lr_kind="constant", warmup_steps=0, decay_steps=10, min_lr=0.0)

LEARNED = dict(GPT2, loss="cross_entropy")
# training.py has the formulas. Its matrices have more rows than columns, fewer, and as many.
MUON_GPT2 = dict(GPT2, optimizer="muon", momentum=0.95, nesterov=1, scale="match_rms", lr_scale=1.0)
MUON_LLAMA = dict(LLAMA, optimizer="muon", momentum=0.8, nesterov=0, scale="original", lr_scale=2.0,
                  clip_grad=1.0)

# Masked language modelling: single tokens and spans.
MLM_GPT2 = dict(GPT2, loss="cross_entropy", objective="mlm", seed=1234, mask_rate=0.25, masking="token",
                mask_id=66, mask_share=0.8, random_share=0.1, geometric_p=0.2, max_span=10)
MLM_LLAMA = dict(LLAMA, loss="cross_entropy", objective="mlm", seed=99, mask_rate=0.4, masking="span",
                 mask_id=3, mask_share=0.5, random_share=0.25, geometric_p=0.4, max_span=4)

# LoRA of every layer, and of some that share their input with others.
LORA_GPT2 = dict(GPT2, lora_rank=5, lora_alpha=7.5,
                 lora_targets="attn.q attn.k attn.v attn.proj mlp.fc mlp.proj")
LORA_LLAMA = dict(LLAMA, lora_rank=3, lora_alpha=12.0,
                  lora_targets="attn.q attn.v attn.proj mlp.gate mlp.proj")

# Prompt tuning, and p-tuning with an encoder that is narrower than the model.
PROMPT_GPT2 = dict(GPT2, virtual_tokens=5, encoder_hidden_size=0)
PROMPT_LLAMA = dict(LLAMA, virtual_tokens=3, encoder_hidden_size=20)

# Experts: those of gpt-oss, and a router such as GLM-4.5's with a shared expert behind a gate.
EXPERTS = dict(LLAMA, activation="clamped_swiglu", experts=6, per_token=2, expert_ffn=16, expert_bias=1,
               score="softmax", normalize=1, logit_bias=1,
               aux_weight=0.03, sequence_aux_weight=0.02, z_weight=0.01, clip_grad=1.0)
EXPERTS_SIGMOID = dict(MUON_LLAMA, num_layers=3, experts=8, per_token=3, expert_ffn=12, score="sigmoid",
                       normalize=1, scale_of_weights=2.5, router_groups=4, router_keep=2, first_dense=1,
                       shared_ffn=20, shared_gate=1, bias_rate=0.05, aux_weight=0.0,
                       sequence_aux_weight=0.02, z_weight=0.0)

# The keys that GPT2 and LLAMA lack have these values there.
PLAIN = dict(optimizer="adamw", qkv_bias=None, qk_norm=0, rope_scaling="none", sliding_window=0, full_attention_layer=-1)

QWEN = dict(LLAMA, num_layers=3, tie_embeddings=1, qkv_bias=1, qk_norm=1, rope_scaling="yarn", factor=4.0,
            original_max_position_embeddings=8, sliding_window=5, full_attention_layer=1)

NEOX = dict(
    num_layers=2, hidden_size=24, num_attention_heads=3, num_query_groups=3, head_dim=8,
    ffn_hidden_size=80, vocab_size=67, max_position_embeddings=16, position_embedding="rope",
    rope_theta=100.0, normalization="layernorm", norm_eps=1e-5, activation="gelu_erf", bias=1,
    tie_embeddings=0, seq_length=16, micro_batch_size=3, lr=1e-2, beta1=0.9, beta2=0.95, eps=1e-4,
    weight_decay=0.1, clip_grad=1.5, lr_kind="constant", warmup_steps=0, decay_steps=10, min_lr=0.0,
    qkv_bias=1, qk_norm=0, rope_scaling="llama3", factor=4.0, original_max_position_embeddings=40,
    sliding_window=7, full_attention_layer=-1)

# Rotations of some dims, in some layers, with a base for layers with a window, which the scaling leaves
# alone; soft caps of scores and of logits; sinks.
CAPPED = dict(QWEN, rotary_fraction=0.5, unrotated_layer=2, window_rope_theta=50.0, attention_softcap=1.5,
              attention_sinks=1, logit_softcap=2.0)

# 6 heads, whose slopes are those of 4 and every other one of 8.
ALIBI = dict(GPT2, position_embedding="alibi", num_attention_heads=6, num_query_groups=6, head_dim=4)

SCORES = dict(rotary_fraction=1.0, unrotated_layer=-1, window_rope_theta=0.0, attention_softcap=0.0,
              attention_sinks=0, logit_softcap=0.0)

# Blocks in the manner of OLMo 2, Gemma 2, Falcon and Cohere, with what others have at their ends.
OLMO = dict(LLAMA, norm_placement="after", qk_norm_rows=1)
GEMMA = dict(LLAMA, norm_placement="both", activation="geglu", embedding_scale=4.75, tie_embeddings=1)
FALCON = dict(GPT2, parallel_residual="two_norms", activation="relu2", embedding_norm=1, head_bias=1,
              attention_bias=0)
COHERE = dict(GPT2, parallel_residual="one_norm", activation="relu", bias=0,
              norm_bias=1, tie_embeddings=0)


def option(c, key):
    return c.get(key, {**PLAIN, **SCORES}[key])
