"""Ten optimizer steps on one batch."""

import math

import numpy as np
import torch

from torch_fixture.cases import option
from torch_fixture.experts import Routing, move_balance
from torch_fixture.model import mean_loss

STEPS = 10


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
            matrices = u if u.ndim == 3 else u[None]  # one for each expert
            orthogonal = torch.stack([self.orthogonal(x) for x in matrices]).view(u.shape)
            update = self.scale(*w.shape[-2:]) * orthogonal
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
        if name.endswith(".balance"):
            return False
        return "virtual_tokens" not in c or name.startswith("prompt.")

    w = {name: torch.tensor(x, dtype=dtype, requires_grad=is_trained(name))
         for name, x in weights.items()}
    trained = {name: x for name, x in w.items() if x.requires_grad}
    ids, targets = (torch.tensor(x, dtype=torch.int64) for x in batch[:2])
    token_weights = torch.tensor(batch[2], dtype=dtype)
    with_muon = option(c, "optimizer") == "muon"
    # Biases of experts have two dims, too.
    matrices = {x for name, x in w.items() if x.ndim >= 2 and not name.endswith(".bias")}
    blocks = [x for name, x in w.items()
              if name.startswith("h.") and x in matrices and not name.endswith("router.weight")]
    muon = Muon(c, blocks if with_muon else [])
    others = [x for x in trained.values() if x not in muon.state]
    optimizer = torch.optim.AdamW(
        [dict(params=[x for x in others if x in matrices], weight_decay=c["weight_decay"]),
         dict(params=[x for x in others if x not in matrices], weight_decay=0.0)],
        betas=(c["beta1"], c["beta2"]), eps=c["eps"])
    out = {"losses": [], "grad_norms": [], "learning_rates": []}
    for step in range(1, STEPS + 1):
        for x in w.values():
            x.grad = None
        routing = Routing(token_weights)
        loss = mean_loss(c, w, ids, targets, token_weights, routing)
        (loss + routing.loss).backward()
        if step == 1:
            out["loss"] = loss.item()
            out.update({"grad/" + name: x.grad.numpy().copy() for name, x in trained.items()})
        clip = c["clip_grad"] if c["clip_grad"] > 0 else math.inf
        norm_before = torch.nn.utils.clip_grad_norm_(trained.values(), clip)
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(c, step)
        optimizer.step()
        muon.step(learning_rate(c, step))
        move_balance(c, w, routing)
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


def disturbed(weights, random):
    """Each weight times 1 + e with |e| at most half the distance of two float32 next to each other."""
    return {name: x * (1 + random.uniform(-(2.0**-24), 2.0**-24, x.shape))
            for name, x in weights.items()}
