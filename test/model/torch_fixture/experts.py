"""A layer of experts in plain PyTorch: the formulas of docs/experts.md."""

import torch

# Two experts whose scores are nearer than this could change places by rounding.
SMALLEST_MARGIN = 1e-5


def option(c, key):
    return c.get(key, dict(first_dense=0, shared_ffn=0, shared_gate=0, logit_bias=0, expert_bias=0, router_groups=1,
                           router_keep=1, bias_rate=0.0, scale_of_weights=1.0)[key])


def has_experts(c, layer):
    return "experts" in c and layer >= option(c, "first_dense")


def tensor_shapes(c, layer):
    hidden, count, ffn = c["hidden_size"], c["experts"], c["expert_ffn"]
    at = f"h.{layer}."
    shapes = {at + "router.weight": (count, hidden)}
    if option(c, "logit_bias"):
        shapes[at + "router.bias"] = (count,)
    if option(c, "bias_rate"):
        shapes[at + "router.balance"] = (count,)
    for name in ("fc", "gate"):
        shapes[at + f"experts.{name}.weight"] = (count, ffn, hidden)
    shapes[at + "experts.proj.weight"] = (count, hidden, ffn)
    if option(c, "expert_bias"):
        for name, width in ("fc", ffn), ("gate", ffn), ("proj", hidden):
            shapes[at + f"experts.{name}.bias"] = (count, width)
    shared = option(c, "shared_ffn")
    if shared:
        if option(c, "shared_gate"):
            shapes[at + "shared.router.weight"] = (1, hidden)
        for name in ("fc", "gate"):
            shapes[at + f"shared.{name}.weight"] = (shared, hidden)
        shapes[at + "shared.proj.weight"] = (hidden, shared)
    return shapes


class Routing:
    """What the routers of a pass add to the loss, and how often they chose each expert."""

    def __init__(self, token_weights):
        self.token_weights = token_weights  # [B, S]
        self.loss = 0
        self.counts = {}  # by layer

    def add(self, c, layer, logits, scores, chosen):
        weights = self.token_weights.flatten()
        total = weights.sum()
        used = torch.zeros_like(scores).scatter(1, chosen, 1.0) * weights[:, None]
        shares = scores / scores.sum(dim=1, keepdim=True) * weights[:, None]
        self.counts[layer] = used.sum(dim=0)
        count, per_token = c["experts"], c["per_token"]
        groups = {"sequence_aux_weight": len(self.token_weights), "aux_weight": 1}
        for key, number in groups.items():
            parts = zip(used.chunk(number), shares.chunk(number), weights.chunk(number))
            loss = sum((u.sum(dim=0) * q.sum(dim=0)).sum() / w.sum() for u, q, w in parts if w.sum() > 0)
            self.loss = self.loss + c[key] * count / per_token * loss / total
        self.loss = self.loss + c["z_weight"] * (logits.logsumexp(dim=1) ** 2 * weights).sum() / total


def gated_mlp(c, w, at, x, expert=None):
    """The shared expert, or one of the others."""
    def linear(name, values):
        weight, bias = (w.get(f"{at}.{name}.{kind}") for kind in ("weight", "bias"))
        if expert is not None:
            weight, bias = weight[expert], None if bias is None else bias[expert]
        return torch.nn.functional.linear(values, weight, bias)

    up, gate = linear("fc", x), linear("gate", x)
    if c["activation"] == "clamped_swiglu":
        gate, up = gate.clamp(max=7), up.clamp(-7, 7) + 1
    return linear("proj", up * gate * torch.sigmoid(gate * (1.702 if c["activation"] == "clamped_swiglu" else 1)))


def choose(c, w, layer, scores):
    choice = scores.detach() + (w[f"h.{layer}.router.balance"] if option(c, "bias_rate") else 0)
    groups = option(c, "router_groups")
    if groups > 1:
        parts = choice.unflatten(1, (groups, -1))
        best = parts.topk(2, dim=2).values.sum(dim=2)
        check_margin(best, option(c, "router_keep"))
        kept = best.topk(option(c, "router_keep"), dim=1).indices
        mask = torch.zeros_like(best, dtype=torch.bool).scatter(1, kept, True)
        choice = parts.masked_fill(~mask[:, :, None], -torch.inf).flatten(1)
    check_margin(choice, c["per_token"])
    return choice.topk(c["per_token"], dim=1).indices.sort(dim=1).values


def check_margin(values, count):
    ordered = values.sort(dim=1, descending=True).values
    margin = (ordered[:, count - 1] - ordered[:, count]).min().item()
    assert margin > SMALLEST_MARGIN, f"a choice by {margin}: take another seed"


def experts(c, w, layer, x, routing):
    at = f"h.{layer}."
    n = x.flatten(0, 1)
    logits = n @ w[at + "router.weight"].T
    if option(c, "logit_bias"):
        logits = logits + w[at + "router.bias"]
    scores = torch.sigmoid(logits) if c["score"] == "sigmoid" else logits.softmax(dim=1)
    chosen = choose(c, w, layer, scores)
    weights = scores.gather(1, chosen)
    if c["normalize"]:
        weights = weights / (weights.sum(dim=1, keepdim=True) + 1e-20)
    weights = weights * option(c, "scale_of_weights")
    routing.add(c, layer, logits, scores, chosen)
    every = torch.stack([gated_mlp(c, w, at + "experts", n, e) for e in range(c["experts"])], dim=1)
    y = (weights[..., None] * every.gather(1, chosen[..., None].expand(-1, -1, n.shape[1]))).sum(dim=1)
    if option(c, "shared_ffn"):
        shared = gated_mlp(c, w, at + "shared", n)
        if option(c, "shared_gate"):
            shared = torch.sigmoid(n @ w[at + "shared.router.weight"].T) * shared
        y = y + shared
    return y.view(x.shape)


@torch.no_grad()
def move_balance(c, w, routing):
    """The bias of the choice, once a step."""
    for layer, counts in routing.counts.items():
        if option(c, "bias_rate"):
            w[f"h.{layer}.router.balance"] += c["bias_rate"] * torch.sign(counts.mean() - counts)
