#!/usr/bin/env python3
"""Makes the folders of models/ and their logits, with Hugging Face's transformers (5.23, with experts
5.24; torch 2.13).

Each folder is a small random model as save_pretrained writes it, with logits.safetensors: "ids"
[tokens] and "logits" [tokens, vocab] in fp32, computed by transformers. No token is near the border
between two choices of experts.
"""
import json
import pathlib
import shutil

import torch
import transformers as tf
from safetensors.torch import save_file

FOLDER = pathlib.Path(__file__).parent / "models"
SIZES = dict(vocab_size=40, hidden_size=16, intermediate_size=24, num_hidden_layers=2,
             num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=32,
             bos_token_id=1, eos_token_id=2)

ALL_MOE_SIZES = dict(SIZES, moe_intermediate_size=12)
MOE_SIZES = dict(ALL_MOE_SIZES, num_hidden_layers=3)


def rope(theta, **more):
    return dict(rope_parameters=dict(rope_theta=theta, rope_type="default", **more))


def model(kind, **settings):
    return kind(kind.config_class(**settings))


MODELS = {
    "llama": lambda: model(tf.LlamaForCausalLM, **SIZES, head_dim=8, **rope(500000.0)),
    "llama_biases": lambda: model(tf.LlamaForCausalLM, **SIZES, attention_bias=True, mlp_bias=True),
    "llama_tied": lambda: model(tf.LlamaForCausalLM, **SIZES, tie_word_embeddings=True,
                                rms_norm_eps=1e-5).bfloat16(),
    "mistral": lambda: model(tf.MistralForCausalLM, **SIZES, head_dim=4, sliding_window=None),
    "gpt2": lambda: model(tf.GPT2LMHeadModel, vocab_size=40, n_embd=16, n_layer=2, n_head=4,
                          n_inner=24, n_positions=32, bos_token_id=1, eos_token_id=2),
    "starcoder2": lambda: model(tf.Starcoder2ForCausalLM, **SIZES),
    "starcoder2_untied": lambda: model(tf.Starcoder2ForCausalLM, **SIZES, use_bias=False,
                                       tie_word_embeddings=False),
    "stablelm": lambda: model(tf.StableLmForCausalLM, **SIZES,
                              **rope(10000.0, partial_rotary_factor=1.0)),
    "llama3": lambda: model(tf.LlamaForCausalLM, **SIZES, head_dim=8,
                            rope_parameters=dict(rope_theta=500.0, rope_type="llama3", factor=8.0,
                                                 low_freq_factor=1.0, high_freq_factor=4.0,
                                                 original_max_position_embeddings=16)),
    "mistral_window": lambda: model(tf.MistralForCausalLM, **SIZES, head_dim=4, sliding_window=5),
    "qwen2": lambda: model(tf.Qwen2ForCausalLM, **SIZES, use_sliding_window=True, sliding_window=6,
                           max_window_layers=1,
                           rope_parameters=dict(rope_theta=1000.0, rope_type="yarn", factor=4.0,
                                                original_max_position_embeddings=8)),
    "qwen3": lambda: model(tf.Qwen3ForCausalLM, **SIZES, head_dim=8, tie_word_embeddings=True),
    "gpt2_erf": lambda: model(tf.GPT2LMHeadModel, vocab_size=40, n_embd=16, n_layer=2, n_head=4,
                              n_inner=24, n_positions=32, bos_token_id=1, eos_token_id=2,
                              activation_function="gelu"),
    "starcoder2_erf": lambda: model(tf.Starcoder2ForCausalLM, **SIZES, hidden_act="gelu"),
    "ministral": lambda: model(tf.MinistralForCausalLM, **SIZES, head_dim=8, sliding_window=5,
                               layer_types=["full_attention", "sliding_attention"],
                               **rope(1000.0)),
    "mixtral": lambda: model(tf.MixtralForCausalLM, **SIZES, head_dim=8, num_local_experts=4,
                             num_experts_per_tok=2, router_aux_loss_coef=0.02, sliding_window=6),
    # Its experts are saved as transformers 5 has them in memory.
    "mixtral_fused": lambda: model(tf.MixtralForCausalLM, **SIZES, num_local_experts=4,
                                   num_experts_per_tok=2),
    "qwen2_moe": lambda: model(tf.Qwen2MoeForCausalLM, **MOE_SIZES, num_experts=6,
                               num_experts_per_tok=2, shared_expert_intermediate_size=20,
                               decoder_sparse_step=2),
    "qwen3_moe": lambda: model(tf.Qwen3MoeForCausalLM, **MOE_SIZES, head_dim=8, num_experts=8,
                               num_experts_per_tok=3, norm_topk_prob=True, mlp_only_layers=[1],
                               tie_word_embeddings=True),
    "glm4_moe": lambda: model(tf.Glm4MoeForCausalLM, **MOE_SIZES, head_dim=8, n_routed_experts=8,
                              num_experts_per_tok=2, n_shared_experts=2, n_group=4, topk_group=2,
                              routed_scaling_factor=2.5, first_k_dense_replace=1,
                              attention_bias=True, use_qk_norm=True, num_mtp_layers=0,
                              **rope(10000.0, partial_rotary_factor=1.0)),
    # With experts in all layers, as llama.cpp has these two.
    "qwen2_moe_all": lambda: model(tf.Qwen2MoeForCausalLM, **ALL_MOE_SIZES, num_experts=4,
                                   num_experts_per_tok=2, shared_expert_intermediate_size=20,
                                   tie_word_embeddings=True),
    "qwen3_moe_all": lambda: model(tf.Qwen3MoeForCausalLM, **ALL_MOE_SIZES, head_dim=8,
                                   num_experts=6, num_experts_per_tok=3, norm_topk_prob=True),
}


def randomise(net, bias):
    """Weights large enough that every one of them shows in the logits."""
    for name, weight in net.named_parameters():
        with torch.no_grad():
            weight.normal_(0, 0.2)
            if "norm" in name or "ln_" in name:
                # Norms are around 1; without other biases, those of norms must be zero.
                if name.endswith(".bias"):
                    weight.mul_(bias).abs_()
                else:
                    weight.add_(1)
    for name, buffer in net.named_buffers():
        if name.endswith("e_score_correction_bias"):
            buffer.normal_(0, 0.2)


def margin(values, chosen):
    """The least distance between the smallest chosen and the largest other of a row."""
    ordered = values.sort(dim=-1, descending=True).values
    return (ordered[:, chosen - 1] - ordered[:, chosen]).min().item()


def least_margin(net, ids):
    """How far tokens are from another choice of experts or groups of them."""
    margins = [1.0]

    def look(router, _, outputs):
        bias = getattr(router, "e_score_correction_bias", None)
        if bias is None:
            margins.append(margin(outputs[0].softmax(-1), router.top_k))
            return
        scores = outputs[0].sigmoid() + bias
        groups = scores.view(len(scores), router.num_group, -1)
        sums = groups.topk(2).values.sum(-1)
        margins.append(margin(sums, router.topk_group))
        kept = sums >= sums.sort(descending=True).values[:, router.topk_group - 1, None]
        scores = groups.masked_fill(~kept[..., None], -1).view(len(scores), -1)
        margins.append(margin(scores, router.top_k))

    hooks = [module.register_forward_hook(look) for module in net.modules()
             if type(module).__name__.lower().endswith("topkrouter")]
    logits = net(ids[None]).logits[0]
    for hook in hooks:
        hook.remove()
    return min(margins), len(hooks), logits


def version_4(config):
    """The same config.json in the dialect of transformers 4."""
    config["torch_dtype"] = config.pop("dtype")
    config["rope_theta"] = config.pop("rope_parameters")["rope_theta"]
    config["rope_scaling"] = None
    return config


def main():
    torch.manual_seed(1)
    shutil.rmtree(FOLDER, ignore_errors=True)
    for name, make in MODELS.items():
        net = make().eval()
        randomise(net, bias=0 if name in ("stablelm", "starcoder2_untied") else 1)
        folder = FOLDER / name
        net.save_pretrained(folder, max_shard_size="10KB" if name == "mistral" else "1GB",
                            **dict(save_original_format=False) if name.endswith("fused") else {})
        if name == "llama_tied":
            path = folder / "config.json"
            path.write_text(json.dumps(version_4(json.loads(path.read_text())), indent=2) + "\n")
        # Loaded again, because bfloat16() also rounds the frequencies of rope.
        loaded = type(net).from_pretrained(folder, dtype=torch.float32).eval()
        nearest = 0
        with torch.no_grad():
            while nearest < 1e-3:
                ids = torch.randint(40, (24,))
                nearest, routers, logits = least_margin(loaded, ids)
        assert routers > 0 or "experts" not in (folder / "config.json").read_text()
        save_file({"ids": ids.float(), "logits": logits.contiguous()},
                  folder / "logits.safetensors")


main()
