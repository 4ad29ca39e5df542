"""A GPT in plain PyTorch. `c` is a case (cases.py), `w` has its tensors by name."""

import math

import numpy as np
import torch

from torch_fixture import experts
from torch_fixture.cases import option


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
        if c.get("norm_bias", c["bias"]):
            shapes[name + ".bias"] = (hidden,)

    qkv_bias = c["bias"] if option(c, "qkv_bias") is None else c["qkv_bias"]
    if c.get("embedding_norm"):
        norm("ln_wte")
    both = c.get("norm_placement") == "both"
    for i in range(c["num_layers"]):
        norm(f"h.{i}.ln_1")
        linear(f"h.{i}.attn.q", q, hidden, qkv_bias)
        linear(f"h.{i}.attn.k", kv, hidden, qkv_bias)
        linear(f"h.{i}.attn.v", kv, hidden, qkv_bias)
        if option(c, "qk_norm"):
            shapes[f"h.{i}.attn.q_norm.weight"] = (c["head_dim"],)
            shapes[f"h.{i}.attn.k_norm.weight"] = (c["head_dim"],)
        if c.get("qk_norm_rows"):
            shapes[f"h.{i}.attn.q_norm.weight"] = (q,)
            shapes[f"h.{i}.attn.k_norm.weight"] = (kv,)
        if option(c, "attention_sinks"):
            shapes[f"h.{i}.attn.sinks"] = (c["num_attention_heads"],)
        linear(f"h.{i}.attn.proj", hidden, q, c.get("attention_bias", c["bias"]))
        if both:
            norm(f"h.{i}.ln_1_post")
            norm(f"h.{i}.ln_2_post")
        if c.get("parallel_residual") != "one_norm":
            norm(f"h.{i}.ln_2")
        if experts.has_experts(c, i):
            shapes.update(experts.tensor_shapes(c, i))
            continue
        linear(f"h.{i}.mlp.fc", ffn, hidden)
        if c["activation"] in ("swiglu", "geglu"):
            linear(f"h.{i}.mlp.gate", ffn, hidden)
        linear(f"h.{i}.mlp.proj", hidden, ffn)
    norm("ln_f")
    if c.get("head_bias"):
        shapes["head.bias"] = (c["vocab_size"],)
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
        if name.endswith(("experts.fc.bias", "experts.gate.bias")):
            values *= 20  # so that some are clamped
        weights[name] = values.astype(np.float32)
    return weights


def norm(c, w, name, x):
    if c["normalization"] == "layernorm":
        x = x - x.mean(dim=-1, keepdim=True)
    y = x / torch.sqrt((x * x).mean(dim=-1, keepdim=True) + c["norm_eps"]) * w[name + ".weight"]
    return y + w[name + ".bias"] if name + ".bias" in w else y


def rms_norm(c, w, name, x):
    return x / torch.sqrt((x * x).mean(dim=-1, keepdim=True) + c["norm_eps"]) * w[name + ".weight"]


def linear(c, w, name, x):
    y = x @ w[name + ".weight"].T
    if name + ".lora_a" in w:
        y = y + c["lora_alpha"] / c["lora_rank"] * (x @ w[name + ".lora_a"].T) @ w[name + ".lora_b"].T
    return y + w[name + ".bias"] if name + ".bias" in w else y


def has_window(c, layer):
    return option(c, "sliding_window") and layer != option(c, "full_attention_layer")


def frequencies(c, layer):
    """Of the pairs, and the factor of cosines and sines; as in transformers' modeling_rope_utils."""
    dim, theta = round(option(c, "rotary_fraction") * c["head_dim"]), c["rope_theta"]
    of_window = has_window(c, layer) and option(c, "window_rope_theta")
    theta = of_window or theta
    plain = [theta ** (-2 * i / dim) for i in range(dim // 2)]
    if option(c, "rope_scaling") == "none" or of_window:
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


def rotate(c, layer, x):
    """Rotary embedding of x [B, S, heads, D], rotating halves of the first dims."""
    if layer == option(c, "unrotated_layer"):
        return x
    frequency, amplitude = frequencies(c, layer)
    half = len(frequency)
    angle = (torch.arange(c["seq_length"], dtype=torch.float64)[:, None, None]
             * torch.tensor(frequency, dtype=torch.float64))
    cos, sin = (amplitude * angle.cos()).to(x.dtype), (amplitude * angle.sin()).to(x.dtype)
    a, b, rest = x[..., :half], x[..., half:2 * half], x[..., 2 * half:]
    return torch.cat([a * cos - b * sin, b * cos + a * sin, rest], dim=-1)


def alibi_slopes(heads):
    """As published with the paper (Press et al. 2021)."""
    def of_power(n):
        start = 2 ** (-2 ** -(math.log2(n) - 3))
        return [start * start**i for i in range(n)]

    power = 2 ** math.floor(math.log2(heads))
    return of_power(power) + of_power(2 * power)[::2][:heads - power]


def soft_cap(x, cap):
    return cap * torch.tanh(x / cap) if cap else x


def attention(c, w, i, x):
    batch, seq = x.shape[:2]
    heads, groups, dim = c["num_attention_heads"], c["num_query_groups"], c["head_dim"]
    q, k = linear(c, w, f"h.{i}.attn.q", x), linear(c, w, f"h.{i}.attn.k", x)
    if c.get("qk_norm_rows"):
        q, k = rms_norm(c, w, f"h.{i}.attn.q_norm", q), rms_norm(c, w, f"h.{i}.attn.k_norm", k)
    q, k = q.view(batch, seq, heads, dim), k.view(batch, seq, groups, dim)
    v = linear(c, w, f"h.{i}.attn.v", x).view(batch, seq, groups, dim)
    if option(c, "qk_norm"):
        q, k = rms_norm(c, w, f"h.{i}.attn.q_norm", q), rms_norm(c, w, f"h.{i}.attn.k_norm", k)
    if c["position_embedding"] == "rope":
        q, k = rotate(c, i, q), rotate(c, i, k)
    k = k.repeat_interleave(heads // groups, dim=2)  # head n uses group n G / N
    v = v.repeat_interleave(heads // groups, dim=2)
    if c.get("objective") == "mlm":
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
        o = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=False)
        return linear(c, w, f"h.{i}.attn.proj", o.transpose(1, 2).reshape(batch, seq, heads * dim))
    scores = soft_cap(torch.einsum("bind,bjnd->bnij", q, k) / math.sqrt(dim), option(c, "attention_softcap"))
    if c["position_embedding"] == "alibi":
        at = torch.arange(seq)
        slopes = torch.tensor(alibi_slopes(heads), dtype=torch.float64).to(q.dtype)
        scores = scores - slopes[:, None, None] * (at[:, None] - at)
    hidden = torch.ones(seq, seq, dtype=torch.bool).triu(1)
    if has_window(c, i):
        hidden |= torch.ones(seq, seq, dtype=torch.bool).tril(-option(c, "sliding_window"))
    scores = scores.masked_fill(hidden, -math.inf)
    if option(c, "attention_sinks"):
        sinks = w[f"h.{i}.attn.sinks"][:, None, None].expand(batch, heads, seq, 1)
        scores = torch.cat([scores, sinks], dim=-1)
    p = scores.softmax(dim=-1)[..., :seq]
    o = torch.einsum("bnij,bjnd->bind", p, v).reshape(batch, seq, heads * dim)
    return linear(c, w, f"h.{i}.attn.proj", o)


def mlp(c, w, i, x):
    u = linear(c, w, f"h.{i}.mlp.fc", x)
    if c["activation"] == "swiglu":
        gate = linear(c, w, f"h.{i}.mlp.gate", x)
        y = gate * torch.sigmoid(gate) * u
    elif c["activation"] == "geglu":
        y = torch.nn.functional.gelu(linear(c, w, f"h.{i}.mlp.gate", x), approximate="tanh") * u
    elif c["activation"] == "gelu_erf":
        y = torch.nn.functional.gelu(u)
    elif c["activation"] in ("relu", "relu2"):
        y = u.relu() ** (2 if c["activation"] == "relu2" else 1)
    else:
        y = 0.5 * u * (1 + torch.tanh(math.sqrt(2 / math.pi) * (u + 0.044715 * u**3)))
    return linear(c, w, f"h.{i}.mlp.proj", y)


def block(c, w, i, r, routing):
    def feed_forward(x):
        return experts.experts(c, w, i, x, routing) if experts.has_experts(c, i) else mlp(c, w, i, x)

    placement, parallel = c.get("norm_placement", "before"), c.get("parallel_residual", "none")
    first, second = (lambda x: norm(c, w, f"h.{i}.ln_1", x)), (lambda x: norm(c, w, f"h.{i}.ln_2", x))
    if placement == "after":
        r = r + first(attention(c, w, i, r))
        return r + second(feed_forward(r))
    if placement == "both":
        r = r + norm(c, w, f"h.{i}.ln_1_post", attention(c, w, i, first(r)))
        return r + norm(c, w, f"h.{i}.ln_2_post", feed_forward(second(r)))
    if parallel == "none":
        r = r + attention(c, w, i, first(r))
        return r + feed_forward(second(r))
    n = first(r) if parallel == "one_norm" else second(r)
    return r + attention(c, w, i, first(r)) + feed_forward(n)


def virtual_rows(c, w):
    """The embeddings of the virtual tokens."""
    x = w["prompt.weight"]
    for i in range(3 if c["encoder_hidden_size"] else 0):
        x = x.relu() if i else x
        x = linear(c, w, f"prompt.encoder.{i}", x)
    return x


def mean_loss(c, w, ids, targets, token_weights, routing):
    r = w["wte.weight"][ids.clamp(min=0)] * c.get("embedding_scale", 1.0)
    if "virtual_tokens" in c:
        rows = virtual_rows(c, w)[ids.clamp(max=-1) + c["virtual_tokens"]]
        r = torch.where(ids[..., None] < 0, rows, r)
        targets = targets.clamp(min=0)  # of weight 0 where they are virtual tokens
    if c["position_embedding"] == "learned":
        r = r + w["wpe.weight"][: c["seq_length"]]
    if c.get("embedding_norm"):
        r = norm(c, w, "ln_wte", r)
    for i in range(c["num_layers"]):
        r = block(c, w, i, r, routing)
    head = w["wte.weight" if c["tie_embeddings"] else "head.weight"]
    logits = norm(c, w, "ln_f", r) @ head.T
    if c.get("head_bias"):
        logits = logits + w["head.bias"]
    logits = soft_cap(logits, option(c, "logit_softcap"))
    if c.get("loss") == "cross_entropy":
        labels = targets.masked_fill(token_weights == 0, -100)
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(),
                                                 ignore_index=-100)
    log_p = logits.log_softmax(dim=-1)
    losses = -log_p.gather(-1, targets[..., None])[..., 0]
    return (losses * token_weights).sum() / token_weights.sum()
