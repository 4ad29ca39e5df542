#!/usr/bin/env python3
"""LoRA on a base in NF4 against bitsandbytes' formulas in PyTorch: the losses of a few steps of AdamW
are the same, for a random model of SmolLM2-135M's shape.

    test/peers/nf4.py
"""

import json
import struct

import compare
import support

STEPS, LENGTH, RANK, ALPHA = 6, 128, 8, 16
CLOSE = 1e-4  # of each loss
NAME = "smollm2-135m"
SHAPE = dict(vocab_size=49152, hidden_size=576, intermediate_size=1536, num_hidden_layers=30,
             num_attention_heads=9, num_key_value_heads=3, tie_word_embeddings=True)
LINEARS = {"q_proj": "attn.q", "k_proj": "attn.k", "v_proj": "attn.v", "o_proj": "attn.proj",
           "up_proj": "mlp.fc", "gate_proj": "mlp.gate", "down_proj": "mlp.proj"}
SETTINGS = (f"training.steps={STEPS}", f"training.seq_length={LENGTH}", "logging.interval=1",
            "precision.compute=fp32", "optimizer.betas=[0.9, 0.95]", "optimizer.eps=1.0e-8",
            "optimizer.clip_grad=0", "optimizer.lr=1.0e-3", "optimizer.weight_decay=0",
            "lr_schedule.kind=constant", "lr_schedule.warmup_steps=0", "checkpoint.interval=0")

# NF4's values; a code rounds to the nearest of them (QLoRA, arXiv 2305.14314, appendix E).
VALUES = [-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453,
          -0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0.0,
          0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
          0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0]
BLOCK = 64


def nearest(x, values):
    import torch

    values = torch.tensor(values, dtype=torch.float32)
    return values[torch.bucketize(x, (values[1:] + values[:-1]) / 2)]


def dequantised(weight):
    blocks = weight.reshape(-1, BLOCK)
    absmax = blocks.abs().amax(1)
    codes = nearest(blocks / absmax[:, None], VALUES)
    return (codes * absmax[:, None]).view(weight.shape)


def make_base(proof, name):
    import torch
    import transformers

    torch.manual_seed(7)
    config = transformers.LlamaConfig(**SHAPE, max_position_embeddings=2048, rms_norm_eps=1e-5)
    transformers.LlamaForCausalLM(config).save_pretrained(proof.work / name)


def adapted_layers(model):
    for index, layer in enumerate(model.model.layers):
        for part in (layer.self_attn, layer.mlp):
            for name in LINEARS:
                if hasattr(part, name):
                    half = "self_attn" if part is layer.self_attn else "mlp"
                    yield f"base_model.model.model.layers.{index}.{half}.{name}", part, name


def adapt(proof, name, model):
    """A folder as PEFT saves one. The model's layers become those in NF4 with the adapter."""
    import safetensors.torch
    import torch

    class Adapted(torch.nn.Module):
        def __init__(self, weight, a, b):
            super().__init__()
            self.weight = torch.nn.Parameter(weight, requires_grad=False)
            self.a, self.b = torch.nn.Parameter(a.clone()), torch.nn.Parameter(b.clone())

        def forward(self, x):
            linear = torch.nn.functional.linear
            return linear(x, self.weight) + ALPHA / RANK * linear(linear(x, self.a), self.b)

    model.requires_grad_(False)
    tensors = {}
    for path, part, linear in list(adapted_layers(model)):
        weight = getattr(part, linear).weight.data
        a = torch.randn(RANK, weight.shape[1]) / weight.shape[1]**0.5
        b = 0.02 * torch.randn(weight.shape[0], RANK)
        tensors[f"{path}.lora_A.weight"], tensors[f"{path}.lora_B.weight"] = a, b
        setattr(part, linear, Adapted(dequantised(weight), a, b))
    folder = proof.work / f"adapter-{name}"
    folder.mkdir()
    safetensors.torch.save_file(tensors, folder / "adapter_model.safetensors")
    (folder / "adapter_config.json").write_text(json.dumps({
        "peft_type": "LORA", "task_type": "CAUSAL_LM", "r": RANK, "lora_alpha": ALPHA,
        "lora_dropout": 0.0, "bias": "none", "target_modules": sorted(LINEARS),
        "base_model_name_or_path": str(proof.work / name)}), encoding="utf-8")
    return folder


def their_losses(model, ids):
    import torch

    trained = [one for one in model.parameters() if one.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-3, betas=(0.9, 0.95), eps=1e-8, weight_decay=0)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = model(ids, labels=ids).loss
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def our_losses(proof, name, adapter):
    shown = proof.run(proof.gptrain, "inspect", proof.work / name)
    targets = ", ".join(LINEARS.values())
    (proof.work / "run.yaml").write_text(
        f"{shown[shown.index('model:'):]}\n{compare.SPEC}init_from: {adapter}\noutput_dir: run-{name}\n"
        f"adapter: {{kind: lora, rank: {RANK}, alpha: {ALPHA}, targets: [{targets}]}}\n",
        encoding="utf-8")
    proof.run(proof.gptrain, "--config", "run.yaml", "--set=precision.frozen=nf4",
              *(f"--set={setting}" for setting in SETTINGS))
    lines = (proof.work / f"run-{name}/metrics.jsonl").read_text(encoding="ascii").splitlines()
    return [line["loss"] for line in map(json.loads, lines) if "loss" in line and "step" in line]


def check(proof, name):
    import torch
    import transformers

    make_base(proof, name)
    model = transformers.AutoModelForCausalLM.from_pretrained(proof.work / name, dtype=torch.float32,
                                                              attn_implementation="eager")
    with torch.no_grad():
        plain = model(ids := torch.tensor([token_ids()]), labels=ids).loss.item()
    adapter = adapt(proof, name, model)
    theirs = their_losses(model, ids)
    del model
    ours = our_losses(proof, name, adapter)
    apart = max(abs(one / other - 1) for one, other in zip(ours, theirs))
    proof.claim(len(ours) == STEPS and apart < CLOSE,
                f"{name} in NF4, LoRA: {STEPS} losses of AdamW are those of bitsandbytes' formulas "
                f"within {CLOSE:g}",
                f"{ours[0]:.5f} to {ours[-1]:.5f} ({plain:.5f} unquantised, without an adapter), "
                f"{apart:.1e}")


def token_ids():
    return [(7 * i * i + 3 * i + 5) % 31999 for i in range(LENGTH + 1)]


def prove(proof):
    import torch
    import transformers

    torch.set_num_threads(2)
    transformers.utils.logging.disable_progress_bar()
    print(f"{proof.name}: {support.versions('torch', 'transformers', 'safetensors')}")
    ids = token_ids()
    (proof.work / "ids_text_document.bin").write_bytes(struct.pack(f"<{len(ids)}H", *ids))
    (proof.work / "ids_text_document.idx").write_bytes(
        b"MMIDIDX\0\0" + struct.pack("<QBQQiqqq", 1, 8, 1, 2, len(ids), 0, 0, 1))
    check(proof, NAME)


support.main("nf4", __doc__, prove)
