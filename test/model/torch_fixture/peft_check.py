"""PEFT and transformers on the same model."""

import numpy as np
import torch

PEFT_LAYERS = {
    "attn.q": "self_attn.q_proj", "attn.k": "self_attn.k_proj", "attn.v": "self_attn.v_proj",
    "attn.proj": "self_attn.o_proj", "mlp.fc": "mlp.up_proj", "mlp.gate": "mlp.gate_proj",
    "mlp.proj": "mlp.down_proj", "ln_1": "input_layernorm", "ln_2": "post_attention_layernorm"}


def peft_name(c, name):
    """The name of one of gptrain's tensors in a model of PEFT."""
    base_prefix = "base_model." if c.get("virtual_tokens", 0) else "base_model.model."
    if name.startswith("h."):
        _, layer, rest = name.split(".", 2)
        stem, kind = rest.rsplit(".", 1)
        kind = {"lora_a": "lora_A.default.weight", "lora_b": "lora_B.default.weight"}.get(kind, kind)
        if kind == "weight" and stem in c.get("lora_targets", "").split():
            kind = "base_layer.weight"
        return f"{base_prefix}model.layers.{layer}.{PEFT_LAYERS[stem]}.{kind}"
    if name == "prompt.weight":
        return "prompt_encoder.default.embedding.weight"
    if name.startswith("prompt."):
        _, _, i, kind = name.split(".")
        return f"prompt_encoder.default.mlp_head.{2 * int(i)}.{kind}"
    top = {"wte.weight": "model.embed_tokens.weight", "ln_f.weight": "model.norm.weight",
           "head.weight": "lm_head.weight"}
    return base_prefix + top[name]


def peft_model(c):
    """A Llama of transformers with an adapter of PEFT, in float64."""
    import peft
    import transformers

    config = transformers.LlamaConfig(
        vocab_size=c["vocab_size"], hidden_size=c["hidden_size"], intermediate_size=c["ffn_hidden_size"],
        num_hidden_layers=c["num_layers"], num_attention_heads=c["num_attention_heads"],
        num_key_value_heads=c["num_query_groups"], head_dim=c["head_dim"], rms_norm_eps=c["norm_eps"],
        rope_theta=c["rope_theta"], max_position_embeddings=c["max_position_embeddings"],
        tie_word_embeddings=False, attn_implementation="eager")
    base = transformers.LlamaForCausalLM(config)
    tokens = c.get("virtual_tokens", 0)
    if tokens:
        adapter = peft.PromptEncoderConfig(
            task_type="CAUSAL_LM", num_virtual_tokens=tokens, encoder_reparameterization_type="MLP",
            encoder_hidden_size=c["encoder_hidden_size"])
    else:
        adapter = peft.LoraConfig(
            r=c["lora_rank"], lora_alpha=c["lora_alpha"], lora_dropout=0.0,
            target_modules=[PEFT_LAYERS[name].split(".")[1] for name in c["lora_targets"].split()])
    return peft.get_peft_model(base, adapter).double().eval()


def check_with_peft(c, batch, weights, exact):
    """PEFT and transformers give the same loss and gradients (needs both, and nothing is stored)."""
    import peft

    tokens = c.get("virtual_tokens", 0)
    model = peft_model(c)
    parameters = dict(model.named_parameters())
    with torch.no_grad():
        for name, values in weights.items():
            parameters[peft_name(c, name)].copy_(torch.tensor(values))
    ids, targets = (torch.tensor(x, dtype=torch.int64) for x in batch[:2])
    token_weights = torch.tensor(batch[2], dtype=torch.float64)
    log_p = model(input_ids=ids[:, tokens:]).logits.log_softmax(dim=-1)
    losses = -log_p.gather(-1, targets.clamp(min=0)[..., None])[..., 0]
    loss = (losses * token_weights).sum() / token_weights.sum()
    loss.backward()
    # transformers computes the angles of the rotation in float32.
    assert abs(loss.item() - exact["loss"]) < 1e-5, (loss.item(), exact["loss"])
    for name, values in exact.items():
        if name.startswith("grad/"):
            grad = parameters[peft_name(c, name[5:])].grad.numpy()
            assert np.linalg.norm(grad - values) < 1e-5 * np.linalg.norm(values), name
    print("PEFT", peft.__version__, "agrees")
