#!/usr/bin/env python3
"""Writes *_tiny.h5: what tiny models compute, by PyTorch.

    python3 make_torch_fixture.py [NAME...]  (needs torch, numpy, h5py; nothing else reads this file)

Each file holds
    attributes          the model and the optimizer, under the keys of the run spec
    ids, targets        int32 [B, S]
    weights             float32 [B, S], weight of each token in the loss
    tokens, learned     only in learned_tiny.h5, int32 and uint8 [B S + 1]: the text whose windows are
                        the rows of ids and targets, and the loss mask that gave the weights. The
                        loss there is torch.nn.functional.cross_entropy with ignore_index.
    tokens              only in mlm_*_tiny.h5, int32 [B S]: the text, which the targets are too. ids and
                        weights are what ../data/make_masking_fixture.py makes of it. Attention there is
                        torch.nn.functional.scaled_dot_product_attention with is_causal=False, the loss
                        that of learned_tiny.h5.
    weight/NAME         float32, the tensors before the first step
    grad/NAME           gradients of `loss` there, before clipping
    weight/NAME.lora_a, weight/NAME.lora_b      only in lora_*_tiny.h5, where only these are trained
    weight/prompt.*     only in prompt_*_tiny.h5, where only these are trained. Each row of ids begins with
                        virtual tokens, whose ids are below 0
    loss                float64, weighted sum over the tokens / sum of the weights
    losses, grad_norms, learning_rates          float64 [10], one for each optimizer step on this batch
    final/NAME, final_exp_avg/NAME, final_exp_avg_sq/NAME       after the ten steps
    final_momentum_buffer/NAME                  instead, for the matrices that Muon updates

All is computed in float64; tensors are stored rounded to float32. The attribute `fp32_error` of each
result says how far from it PyTorch's own float32 gets (2-norm of the difference): the farthest of
eight runs that start from weights disturbed by half a unit in the last place, since one run alone may
be near by luck. What another float32 implementation may be off by is a small multiple of that.

The loss and the gradients of lora_llama_tiny.h5 and prompt_llama_tiny.h5 are compared with PEFT's on the
Llama of transformers.

`eps` is larger than usual: a gradient that is zero but for rounding (that of the key bias) would else
be blown up to a full update by AdamW's normalisation, and nothing could be compared.
"""

import math
import pathlib
import sys

import h5py
import numpy as np
import torch

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "data"))

from make_masking_fixture import Masking  # noqa: E402

STEPS = 10
FP32_RUNS = 8
END_OF_DOCUMENT = 2

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
# The class Muon below has the formulas. Its matrices have more rows than columns, fewer, and as many.
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

# The keys that GPT2 and LLAMA lack have these values there.
PLAIN = dict(optimizer="adamw", qkv_bias=None, qk_norm=0, rope_scaling="none", sliding_window=0, full_attention_layer=-1)

QWEN = dict(
    num_layers=3, hidden_size=24, num_attention_heads=4, num_query_groups=2, head_dim=8,
    ffn_hidden_size=40, vocab_size=67, max_position_embeddings=16, position_embedding="rope",
    rope_theta=500.0, normalization="rmsnorm", norm_eps=1e-6, activation="swiglu", bias=0,
    tie_embeddings=1, seq_length=16, micro_batch_size=3, lr=5e-3, beta1=0.8, beta2=0.99, eps=1e-4,
    weight_decay=0.2, clip_grad=0.0, lr_kind="constant", warmup_steps=0, decay_steps=10, min_lr=0.0,
    qkv_bias=1, qk_norm=1, rope_scaling="yarn", factor=4.0, original_max_position_embeddings=8,
    sliding_window=5, full_attention_layer=1)

NEOX = dict(
    num_layers=2, hidden_size=24, num_attention_heads=3, num_query_groups=3, head_dim=8,
    ffn_hidden_size=80, vocab_size=67, max_position_embeddings=16, position_embedding="rope",
    rope_theta=100.0, normalization="layernorm", norm_eps=1e-5, activation="gelu_erf", bias=1,
    tie_embeddings=0, seq_length=16, micro_batch_size=3, lr=1e-2, beta1=0.9, beta2=0.95, eps=1e-4,
    weight_decay=0.1, clip_grad=1.5, lr_kind="constant", warmup_steps=0, decay_steps=10, min_lr=0.0,
    qkv_bias=1, qk_norm=0, rope_scaling="llama3", factor=4.0, original_max_position_embeddings=40,
    sliding_window=7, full_attention_layer=-1)


def option(c, key):
    return c.get(key, PLAIN[key])


def tensor_shapes(c):
    """Names and shapes in the order of the forward pass; every matrix is [out, in]."""
    hidden, ffn = c["hidden_size"], c["ffn_hidden_size"]
    q = c["num_attention_heads"] * c["head_dim"]
    kv = c["num_query_groups"] * c["head_dim"]
    shapes = {"wte.weight": (c["vocab_size"], hidden)}
    if c["position_embedding"] == "learned":
        shapes["wpe.weight"] = (c["max_position_embeddings"], hidden)

    def linear(name, outputs, inputs, bias=c["bias"]):
        shapes[name + ".weight"] = (outputs, inputs)
        if bias:
            shapes[name + ".bias"] = (outputs,)
        if name.split(".", 2)[2] in c.get("lora_targets", "").split():
            shapes[name + ".lora_a"] = (c["lora_rank"], inputs)
            shapes[name + ".lora_b"] = (outputs, c["lora_rank"])

    def norm(name):
        shapes[name + ".weight"] = (hidden,)
        if c["bias"]:
            shapes[name + ".bias"] = (hidden,)

    qkv_bias = c["bias"] if option(c, "qkv_bias") is None else c["qkv_bias"]
    for i in range(c["num_layers"]):
        norm(f"h.{i}.ln_1")
        linear(f"h.{i}.attn.q", q, hidden, qkv_bias)
        linear(f"h.{i}.attn.k", kv, hidden, qkv_bias)
        linear(f"h.{i}.attn.v", kv, hidden, qkv_bias)
        if option(c, "qk_norm"):
            shapes[f"h.{i}.attn.q_norm.weight"] = (c["head_dim"],)
            shapes[f"h.{i}.attn.k_norm.weight"] = (c["head_dim"],)
        linear(f"h.{i}.attn.proj", hidden, q)
        norm(f"h.{i}.ln_2")
        linear(f"h.{i}.mlp.fc", ffn, hidden)
        if c["activation"] == "swiglu":
            linear(f"h.{i}.mlp.gate", ffn, hidden)
        linear(f"h.{i}.mlp.proj", hidden, ffn)
    norm("ln_f")
    if not c["tie_embeddings"]:
        shapes["head.weight"] = (c["vocab_size"], hidden)
    if "virtual_tokens" in c:
        shapes["prompt.weight"] = (c["virtual_tokens"], hidden)
        inner = c["encoder_hidden_size"]
        for i, (outputs, inputs) in enumerate([(inner, hidden), (inner, inner), (hidden, inner)]):
            if inner:
                shapes[f"prompt.encoder.{i}.weight"] = (outputs, inputs)
                shapes[f"prompt.encoder.{i}.bias"] = (outputs,)
    return shapes


def initial_weights(c, random):
    """Large enough that every part of the model matters; exactly representable in float32."""
    weights = {}
    for name, shape in tensor_shapes(c).items():
        values = random.standard_normal(shape) * 0.2
        if ("ln_" in name or "_norm" in name) and name.endswith(".weight"):
            values += 1.0
        weights[name] = values.astype(np.float32)
    return weights


def disturbed(weights, random):
    """Each weight times 1 + e with |e| at most half the distance of two float32 next to each other."""
    return {name: x * (1 + random.uniform(-(2.0**-24), 2.0**-24, x.shape))
            for name, x in weights.items()}


def norm(c, w, name, x):
    if c["normalization"] == "layernorm":
        x = x - x.mean(dim=-1, keepdim=True)
    y = x / torch.sqrt((x * x).mean(dim=-1, keepdim=True) + c["norm_eps"]) * w[name + ".weight"]
    return y + w[name + ".bias"] if c["bias"] else y


def linear(c, w, name, x):
    y = x @ w[name + ".weight"].T
    if name + ".lora_a" in w:
        y = y + c["lora_alpha"] / c["lora_rank"] * (x @ w[name + ".lora_a"].T) @ w[name + ".lora_b"].T
    return y + w[name + ".bias"] if name + ".bias" in w else y


def frequencies(c):
    """Of the pairs, and the factor of cosines and sines; as in transformers' modeling_rope_utils."""
    dim, theta = c["head_dim"], c["rope_theta"]
    plain = [theta ** (-2 * i / dim) for i in range(dim // 2)]
    if option(c, "rope_scaling") == "none":
        return plain, 1.0
    factor, length = c["factor"], c["original_max_position_embeddings"]
    if c["rope_scaling"] == "llama3":
        low, high = 1.0, 4.0
        scaled = []
        for f in plain:
            wave = 2 * math.pi / f
            smooth = (length / wave - low) / (high - low)
            if wave > length / low:
                scaled.append(f / factor)
            elif wave < length / high:
                scaled.append(f)
            else:
                scaled.append((1 - smooth) * f / factor + smooth * f)
        return scaled, 1.0

    def pair(turns):
        return dim * math.log(length / (turns * 2 * math.pi)) / (2 * math.log(theta))

    first, last = max(math.floor(pair(32)), 0), min(math.ceil(pair(1)), dim - 1)
    last = first + 0.001 if first == last else last
    ramps = [min(max((i - first) / (last - first), 0), 1) for i in range(dim // 2)]
    return [f / factor * r + f * (1 - r) for f, r in zip(plain, ramps)], 0.1 * math.log(factor) + 1


def rotate(c, x):
    """Rotary embedding of x [B, S, heads, D], rotating halves."""
    half = c["head_dim"] // 2
    frequency, amplitude = frequencies(c)
    angle = (torch.arange(c["seq_length"], dtype=torch.float64)[:, None, None]
             * torch.tensor(frequency, dtype=torch.float64))
    cos, sin = (amplitude * angle.cos()).to(x.dtype), (amplitude * angle.sin()).to(x.dtype)
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)


def attention(c, w, i, x):
    batch, seq = x.shape[:2]
    heads, groups, dim = c["num_attention_heads"], c["num_query_groups"], c["head_dim"]
    q = linear(c, w, f"h.{i}.attn.q", x).view(batch, seq, heads, dim)
    k = linear(c, w, f"h.{i}.attn.k", x).view(batch, seq, groups, dim)
    v = linear(c, w, f"h.{i}.attn.v", x).view(batch, seq, groups, dim)
    if option(c, "qk_norm"):
        q, k = (x / torch.sqrt((x * x).mean(dim=-1, keepdim=True) + c["norm_eps"])
                * w[f"h.{i}.attn.{name}_norm.weight"] for x, name in ((q, "q"), (k, "k")))
    if c["position_embedding"] == "rope":
        q, k = rotate(c, q), rotate(c, k)
    k = k.repeat_interleave(heads // groups, dim=2)  # head n uses group n G / N
    v = v.repeat_interleave(heads // groups, dim=2)
    if c.get("objective") == "mlm":
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
        o = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=False)
        return linear(c, w, f"h.{i}.attn.proj", o.transpose(1, 2).reshape(batch, seq, heads * dim))
    scores = torch.einsum("bind,bjnd->bnij", q, k) / math.sqrt(dim)
    hidden = torch.ones(seq, seq, dtype=torch.bool).triu(1)
    window = option(c, "sliding_window")
    if window and i != option(c, "full_attention_layer"):
        hidden |= torch.ones(seq, seq, dtype=torch.bool).tril(-window)
    p = scores.masked_fill(hidden, -math.inf).softmax(dim=-1)
    o = torch.einsum("bnij,bjnd->bind", p, v).reshape(batch, seq, heads * dim)
    return linear(c, w, f"h.{i}.attn.proj", o)


def mlp(c, w, i, x):
    u = linear(c, w, f"h.{i}.mlp.fc", x)
    if c["activation"] == "swiglu":
        gate = linear(c, w, f"h.{i}.mlp.gate", x)
        y = gate * torch.sigmoid(gate) * u
    elif c["activation"] == "gelu_erf":
        y = torch.nn.functional.gelu(u)
    else:
        y = 0.5 * u * (1 + torch.tanh(math.sqrt(2 / math.pi) * (u + 0.044715 * u**3)))
    return linear(c, w, f"h.{i}.mlp.proj", y)


def virtual_rows(c, w):
    """The embeddings of the virtual tokens."""
    x = w["prompt.weight"]
    for i in range(3 if c["encoder_hidden_size"] else 0):
        x = x.relu() if i else x
        x = linear(c, w, f"prompt.encoder.{i}", x)
    return x


def mean_loss(c, w, ids, targets, token_weights):
    r = w["wte.weight"][ids.clamp(min=0)]
    if "virtual_tokens" in c:
        rows = virtual_rows(c, w)[ids.clamp(max=-1) + c["virtual_tokens"]]
        r = torch.where(ids[..., None] < 0, rows, r)
        targets = targets.clamp(min=0)  # of weight 0 where they are virtual tokens
    if c["position_embedding"] == "learned":
        r = r + w["wpe.weight"][: c["seq_length"]]
    for i in range(c["num_layers"]):
        r = r + attention(c, w, i, norm(c, w, f"h.{i}.ln_1", r))
        r = r + mlp(c, w, i, norm(c, w, f"h.{i}.ln_2", r))
    head = w["wte.weight" if c["tie_embeddings"] else "head.weight"]
    logits = norm(c, w, "ln_f", r) @ head.T
    if c.get("loss") == "cross_entropy":
        labels = targets.masked_fill(token_weights == 0, -100)
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(),
                                                 ignore_index=-100)
    log_p = logits.log_softmax(dim=-1)
    losses = -log_p.gather(-1, targets[..., None])[..., 0]
    return (losses * token_weights).sum() / token_weights.sum()


def learning_rate(c, step):
    if step < c["warmup_steps"]:
        return c["lr"] * step / c["warmup_steps"]
    if c["lr_kind"] == "constant":
        return c["lr"]
    u = min(1.0, (step - c["warmup_steps"]) / (c["decay_steps"] - c["warmup_steps"]))
    return c["min_lr"] + (c["lr"] - c["min_lr"]) * (1 + math.cos(math.pi * u)) / 2


class Muon:
    """Keller Jordan's Muon with the scales of Liu et al. 2025 (arXiv 2502.16982), in any precision:
    torch.optim.Muon has the same formulas, but orthogonalises in bfloat16, and averages the momentum
    with a factor that the normalisation removes again."""

    def __init__(self, c, params):
        self.c, self.params, self.state = c, params, {x: torch.zeros_like(x) for x in params}

    def step(self, rate):
        c = self.c
        for w in self.params:
            momentum = self.state[w]
            momentum.mul_(c["momentum"]).add_(w.grad)
            u = w.grad + c["momentum"] * momentum if c["nesterov"] else momentum
            update = self.scale(*w.shape) * self.orthogonal(u)
            with torch.no_grad():
                w -= rate * c["lr_scale"] * (update + c["weight_decay"] * w)

    def scale(self, rows, columns):
        if self.c["scale"] == "match_rms":
            return 0.2 * math.sqrt(max(rows, columns))
        return math.sqrt(max(1, rows / columns))

    @staticmethod
    def orthogonal(u):
        a, b, c = 3.4445, -4.7750, 2.0315
        x = u / (torch.linalg.matrix_norm(u) + 1e-7)
        tall = x.shape[0] > x.shape[1]
        if tall:
            x = x.T
        for _ in range(5):
            gram = x @ x.T
            x = a * x + (b * gram + c * gram @ gram) @ x
        return x.T if tall else x


def train(c, batch, weights, dtype):
    """Everything in the file except the inputs, computed in `dtype`."""
    def is_trained(name):
        if "lora_rank" in c:
            return "lora_" in name
        return "virtual_tokens" not in c or name.startswith("prompt.")

    w = {name: torch.tensor(x, dtype=dtype, requires_grad=is_trained(name))
         for name, x in weights.items()}
    trained = {name: x for name, x in w.items() if x.requires_grad}
    ids, targets = (torch.tensor(x, dtype=torch.int64) for x in batch[:2])
    token_weights = torch.tensor(batch[2], dtype=dtype)
    with_muon = option(c, "optimizer") == "muon"
    blocks = [x for name, x in w.items() if name.startswith("h.") and x.ndim == 2]
    muon = Muon(c, blocks if with_muon else [])
    others = [x for x in trained.values() if x not in muon.state]
    optimizer = torch.optim.AdamW(
        [dict(params=[x for x in others if x.ndim == 2], weight_decay=c["weight_decay"]),
         dict(params=[x for x in others if x.ndim != 2], weight_decay=0.0)],
        betas=(c["beta1"], c["beta2"]), eps=c["eps"])
    out = {"losses": [], "grad_norms": [], "learning_rates": []}
    for step in range(1, STEPS + 1):
        for x in w.values():
            x.grad = None
        loss = mean_loss(c, w, ids, targets, token_weights)
        loss.backward()
        if step == 1:
            out["loss"] = loss.item()
            out.update({"grad/" + name: x.grad.numpy().copy() for name, x in trained.items()})
        clip = c["clip_grad"] if c["clip_grad"] > 0 else math.inf
        norm_before = torch.nn.utils.clip_grad_norm_(trained.values(), clip)
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(c, step)
        optimizer.step()
        muon.step(learning_rate(c, step))
        out["losses"].append(loss.item())
        out["grad_norms"].append(norm_before.item())
        out["learning_rates"].append(learning_rate(c, step))
    for name, x in w.items():
        out["final/" + name] = x.detach().numpy()
        if name not in trained:
            continue
        if x in muon.state:
            out["final_momentum_buffer/" + name] = muon.state[x].numpy()
            continue
        out["final_exp_avg/" + name] = optimizer.state[x]["exp_avg"].numpy()
        out["final_exp_avg_sq/" + name] = optimizer.state[x]["exp_avg_sq"].numpy()
    return {name: np.asarray(x, dtype=np.float64) for name, x in out.items()}


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


def write(path, c, seed, token_weights):
    random = np.random.default_rng(seed)
    shape = (c["micro_batch_size"], c["seq_length"])
    text = random.integers(0, c["vocab_size"], (shape[0], shape[1] + 1), dtype=np.int32)
    text[0, 5] = text[2, 9] = END_OF_DOCUMENT
    tokens = c.get("virtual_tokens", 0)
    text[:, :tokens] = np.arange(-tokens, 0)
    extra = {}
    if c.get("objective") == "mlm":
        extra["tokens"] = text[:, :-1].flatten()
        batch = masked_text(c, text[:, :-1])
    elif c.get("loss") == "cross_entropy":
        text[:-1, -1] = text[1:, 0]  # windows of one text
        extra["tokens"] = np.append(text[:, :-1], text[-1, -1]).astype(np.int32)
        extra["learned"] = learned_turns(extra["tokens"].size)
        batch = text[:, :-1], text[:, 1:], extra["learned"][1:].reshape(shape).astype(np.float32)
    else:
        batch = text[:, :-1], text[:, 1:], token_weights(text[:, :-1]) * (text[:, 1:] >= 0)
    weights = initial_weights(c, random)
    exact = train(c, batch, weights, torch.float64)
    if ("lora_rank" in c or tokens) and c["activation"] == "swiglu":
        check_with_peft(c, batch, weights, exact)
    rounded = [train(c, batch, disturbed(weights, random), torch.float32) for _ in range(FP32_RUNS)]
    with h5py.File(path, "w") as file:
        for key, value in c.items():
            file.attrs[key] = np.bytes_(value) if isinstance(value, str) else value
        for name, values in zip(("ids", "targets", "weights"), batch):
            file[name] = values
        for name, values in extra.items():
            file[name] = values
        for name, values in weights.items():
            file["weight/" + name] = values
        for name, values in exact.items():
            scalar_or_step = values.ndim == 0 or values.shape == (STEPS,)
            file[name] = values if scalar_or_step else values.astype(np.float32)
            file[name].attrs["fp32_error"] = max(
                np.linalg.norm(np.ravel(values - run[name])) for run in rounded)
    print(path.name, path.stat().st_size, "bytes, losses", exact["losses"][[0, -1]], "norms",
          exact["grad_norms"])


def main():
    torch.set_num_threads(1)
    models = {"gpt2": (GPT2, 1, ones), "llama": (LLAMA, 2, masked), "qwen": (QWEN, 3, masked),
              "neox": (NEOX, 4, ones), "learned": (LEARNED, 5, None),
              "muon_gpt2": (MUON_GPT2, 5, ones), "muon_llama": (MUON_LLAMA, 6, masked),
              "lora_gpt2": (LORA_GPT2, 7, ones), "lora_llama": (LORA_LLAMA, 8, masked),
              "prompt_gpt2": (PROMPT_GPT2, 9, ones), "prompt_llama": (PROMPT_LLAMA, 10, masked),
              "mlm_gpt2": (MLM_GPT2, 9, None), "mlm_llama": (MLM_LLAMA, 10, None)}
    for name in sys.argv[1:] or models:
        write(HERE / f"{name}_tiny.h5", *models[name])


def learned_turns(tokens):
    """Turns of 5 tokens that are not learned and 4 that are, and one row in which none is."""
    learned = (np.arange(tokens) % 9 >= 5).astype(np.uint8)
    learned[LEARNED["seq_length"] + 1:2 * LEARNED["seq_length"] + 1] = 0
    return learned


def masked_text(c, text):
    """Of the samples from 0 on: what the model reads, the text, and which tokens it has to find."""
    samples = [Masking(c, c["seed"], i, c["vocab_size"]).mask(row, [1] * len(row))
               for i, row in enumerate(text.tolist())]
    read, chosen = (np.array(x) for x in zip(*samples))
    return read.astype(np.int32), text, chosen.astype(np.float32)


def ones(ids):
    return np.ones(ids.shape, np.float32)


def masked(ids):
    """As eod_mask_loss does, plus one token that counts half."""
    weights = (ids != END_OF_DOCUMENT).astype(np.float32)
    weights[1, 3] = 0.5
    return weights


if __name__ == "__main__":
    main()
