#!/usr/bin/env python3
"""LoRA on a base in NF4 against bitsandbytes' formulas in PyTorch: the losses of a few steps of AdamW
are the same, for random models of SmolLM2-135M's shape and of two layers of Llama 3 8B's.

    test/peers/nf4.py
"""

import json
import struct

import compare
import support

STEPS, LENGTH, RANK, ALPHA = 6, 128, 8, 16
CLOSE = 1e-5  # of each loss; PyTorch in fp32 is within 4e-6 of itself in fp64
SMOLLM2 = dict(vocab_size=49152, hidden_size=576, intermediate_size=1536, num_hidden_layers=30,
               num_attention_heads=9, num_key_value_heads=3, tie_word_embeddings=True)
# Two layers, and the rows of the vocabulary that the tokens need.
LLAMA_8B = dict(vocab_size=32000, hidden_size=4096, intermediate_size=14336, num_hidden_layers=2,
                num_attention_heads=32, num_key_value_heads=8, rope_theta=500000.0)
LINEARS = {"q_proj": "attn.q", "k_proj": "attn.k", "v_proj": "attn.v", "o_proj": "attn.proj",
           "up_proj": "mlp.fc", "gate_proj": "mlp.gate", "down_proj": "mlp.proj"}
SETTINGS = (f"training.steps={STEPS}", f"training.seq_length={LENGTH}", "logging.interval=1",
            "precision.compute=fp32", "optimizer.betas=[0.9, 0.95]", "optimizer.eps=1.0e-8",
            "optimizer.clip_grad=0", "optimizer.lr=1.0e-3", "optimizer.weight_decay=0",
            "lr_schedule.kind=constant", "lr_schedule.warmup_steps=0", "checkpoint.interval=0")

# NF4's values (QLoRA, arXiv 2305.14314, appendix E), and the largest x / scale of each code but the
# last, as the kernels of bitsandbytes have them.
VALUES = [-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453,
          -0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0.0,
          0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
          0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0]
BOUNDS = [-0.8480964004993439, -0.6106329262256622, -0.4599952697753906, -0.33967943489551544,
          -0.23460740596055984, -0.13791173323988914, -0.045525018125772476, 0.03979014977812767,
          0.1202552504837513, 0.2035212516784668, 0.2920137718319893, 0.3893125355243683,
          0.501663386821747, 0.6427869200706482, 0.8614784178118011]
BLOCK, SCALE_BLOCK = 64, 256


def coded(x, values, bounds):
    import torch

    values, bounds = (torch.tensor(one, dtype=torch.float32) for one in (values, bounds))
    return values[torch.bucketize(x, bounds)]


def nested(scales):
    """Scales as 8 bits keep them: the values of a code are those of Dettmers et al. 2021 (arXiv
    2110.02861). bitsandbytes takes the mean by PyTorch in fp32, whose last bit depends on the device."""
    import torch

    values = [0.0, 1.0]
    for power in range(7):
        ends = torch.linspace(0.1, 1, 2**power + 1)
        middles = (ends[:-1] + ends[1:]) / 2 * 10.0**(power - 6)
        values += middles.tolist() + (-middles).tolist()
    values = torch.tensor(sorted(values))
    offset = scales.double().mean().float()
    blocks = torch.nn.functional.pad(scales - offset, (0, -len(scales) % SCALE_BLOCK))
    blocks = blocks.view(-1, SCALE_BLOCK)
    factors = blocks.abs().amax(1, keepdim=True)
    codes = coded(blocks / factors, values.tolist(), ((values[1:] + values[:-1]) / 2).tolist())
    return (codes * factors).flatten()[:len(scales)] + offset


def dequantised(weight, double):
    blocks = weight.reshape(-1, BLOCK)
    scales = blocks.abs().amax(1)
    codes = coded(blocks / scales[:, None], VALUES, BOUNDS)
    if double:
        scales = nested(scales)
    return (codes * scales[:, None]).view(weight.shape)


def make_base(proof, name, shape):
    import torch
    import transformers

    torch.manual_seed(7)
    config = transformers.LlamaConfig(**shape, max_position_embeddings=2048, rms_norm_eps=1e-5)
    transformers.LlamaForCausalLM(config).save_pretrained(proof.work / name)


def adapted_layers(model):
    for index, layer in enumerate(model.model.layers):
        for part in (layer.self_attn, layer.mlp):
            for name in LINEARS:
                if hasattr(part, name):
                    half = "self_attn" if part is layer.self_attn else "mlp"
                    yield f"base_model.model.model.layers.{index}.{half}.{name}", part, name


def adapt(proof, name, model, double):
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
        setattr(part, linear, Adapted(dequantised(weight, double), a, b))
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


def our_losses(proof, name, adapter, double):
    shown = proof.run(proof.gptrain, "inspect", proof.work / name)
    targets = ", ".join(LINEARS.values())
    (proof.work / "run.yaml").write_text(
        f"{shown[shown.index('model:'):]}\n{compare.SPEC}init_from: {adapter}\noutput_dir: run-{name}\n"
        f"adapter: {{kind: lora, rank: {RANK}, alpha: {ALPHA}, targets: [{targets}]}}\n",
        encoding="utf-8")
    proof.run(proof.gptrain, "--config", "run.yaml", "--set=precision.frozen=nf4",
              f"--set=precision.nf4_double={str(double).lower()}",
              *(f"--set={setting}" for setting in SETTINGS))
    lines = (proof.work / f"run-{name}/metrics.jsonl").read_text(encoding="ascii").splitlines()
    return [line["loss"] for line in map(json.loads, lines) if "loss" in line and "step" in line]


def check(proof, name, shape, double):
    import torch
    import transformers

    make_base(proof, name, shape)
    model = transformers.AutoModelForCausalLM.from_pretrained(proof.work / name, dtype=torch.float32,
                                                              attn_implementation="eager")
    with torch.no_grad():
        plain = model(ids := torch.tensor([token_ids()]), labels=ids).loss.item()
    adapter = adapt(proof, name, model, double)
    theirs = their_losses(model, ids)
    del model
    ours = our_losses(proof, name, adapter, double)
    apart = max(abs(one / other - 1) for one, other in zip(ours, theirs))
    kind = "NF4 with nested scales" if double else "NF4"
    proof.claim(len(ours) == STEPS and apart < CLOSE,
                f"{name} in {kind}, LoRA: {STEPS} losses of AdamW are those of bitsandbytes' formulas "
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
    check(proof, "smollm2-135m", SMOLLM2, False)
    check(proof, "llama-8b-of-2-layers", LLAMA_8B, True)


support.main("nf4", __doc__, prove)
