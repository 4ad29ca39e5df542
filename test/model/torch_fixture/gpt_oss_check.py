"""Compares layers of experts with those of gpt-oss in transformers."""

import torch

from torch_fixture import experts, model


def parameters(w, at):
    """gptrain's tensors under the names and in the layout of transformers: gate and up alternate."""
    fc, gate, proj = (w[f"{at}experts.{name}.weight"].transpose(1, 2) for name in ("fc", "gate", "proj"))
    fc_bias, gate_bias, proj_bias = (w[f"{at}experts.{name}.bias"] for name in ("fc", "gate", "proj"))
    return {"router.weight": w[at + "router.weight"], "router.bias": w[at + "router.bias"],
            "experts.gate_up_proj": torch.stack([gate, fc], dim=-1).flatten(2),
            "experts.gate_up_proj_bias": torch.stack([gate_bias, fc_bias], dim=-1).flatten(1),
            "experts.down_proj": proj, "experts.down_proj_bias": proj_bias}


def gradients(c, batch, weights):
    w = {name: torch.tensor(x, dtype=torch.float64, requires_grad=True) for name, x in weights.items()}
    ids, targets = (torch.tensor(x, dtype=torch.int64) for x in batch[:2])
    token_weights = torch.tensor(batch[2], dtype=torch.float64)
    loss = model.mean_loss(c, w, ids, targets, token_weights, experts.Routing(token_weights))
    loss.backward()
    return loss.item(), {name: x.grad for name, x in w.items()}


def check_with_gpt_oss(c, batch, weights):
    """The main loss and all its gradients are the same with its experts (needs transformers, and
    nothing is stored)."""
    import transformers
    from transformers.models.gpt_oss.modeling_gpt_oss import GptOssMLP

    config = transformers.GptOssConfig(
        hidden_size=c["hidden_size"], intermediate_size=c["expert_ffn"], num_local_experts=c["experts"],
        num_experts_per_tok=c["per_token"])
    config._experts_implementation = "eager"
    layer_of = GptOssMLP(config).double()

    def theirs(_, w, layer, x, routing):
        return torch.func.functional_call(layer_of, parameters(w, f"h.{layer}."), (x,))[0]

    loss, grads = gradients(c, batch, weights)
    ours, experts.experts = experts.experts, theirs
    try:
        their_loss, their_grads = gradients(c, batch, weights)
    finally:
        experts.experts = ours
    assert abs(loss - their_loss) < 1e-12, (loss, their_loss)
    for name, grad in grads.items():
        assert (grad - their_grads[name]).norm() < 1e-12 * max(grad.norm(), 1e-3), name
    print("experts of gpt-oss in transformers", transformers.__version__, "agree")
