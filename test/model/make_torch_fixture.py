#!/usr/bin/env python3
"""Writes *_tiny.h5: what tiny models compute, by PyTorch.

    python3 make_torch_fixture.py [NAME...]  (needs torch, numpy, h5py)

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
Llama of transformers, those of experts_tiny.h5 with the experts of gpt-oss there.

`eps` is larger than usual: a gradient that is zero but for rounding (that of the key bias) would else
be blown up to a full update by AdamW's normalisation, and nothing could be compared.
"""

import pathlib
import sys

import h5py
import numpy as np
import torch

from torch_fixture import cases
from torch_fixture.batches import masked, ones, random_batch
from torch_fixture.gpt_oss_check import check_with_gpt_oss
from torch_fixture.model import initial_weights
from torch_fixture.peft_check import check_with_peft
from torch_fixture.training import STEPS, disturbed, train

HERE = pathlib.Path(__file__).resolve().parent
FP32_RUNS = 8


def write(path, c, seed, token_weights):
    random = np.random.default_rng(seed)
    batch, extra = random_batch(c, random, token_weights)
    weights = initial_weights(c, random)
    exact = train(c, batch, weights, torch.float64)
    if ("lora_rank" in c or "virtual_tokens" in c) and c["activation"] == "swiglu":
        check_with_peft(c, batch, weights, exact)
    if c.get("expert_bias", 0):
        check_with_gpt_oss(c, batch, weights)
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
    models = {"gpt2": (cases.GPT2, 1, ones),
              "llama": (cases.LLAMA, 2, masked),
              "qwen": (cases.QWEN, 3, masked),
              "neox": (cases.NEOX, 4, ones),
              "capped": (cases.CAPPED, 13, masked),
              "alibi": (cases.ALIBI, 14, ones),
              "learned": (cases.LEARNED, 5, None),
              "muon_gpt2": (cases.MUON_GPT2, 5, ones),
              "muon_llama": (cases.MUON_LLAMA, 6, masked),
              "lora_gpt2": (cases.LORA_GPT2, 7, ones),
              "lora_llama": (cases.LORA_LLAMA, 8, masked),
              "prompt_gpt2": (cases.PROMPT_GPT2, 9, ones),
              "prompt_llama": (cases.PROMPT_LLAMA, 10, masked),
              "experts": (cases.EXPERTS, 11, masked),
              "experts_sigmoid": (cases.EXPERTS_SIGMOID, 12, masked),
              "olmo": (cases.OLMO, 13, masked),
              "gemma": (cases.GEMMA, 14, masked),
              "falcon": (cases.FALCON, 15, ones),
              "cohere": (cases.COHERE, 16, ones),
              "mlm_gpt2": (cases.MLM_GPT2, 9, None),
              "mlm_llama": (cases.MLM_LLAMA, 10, None)}
    for name in sys.argv[1:] or models:
        write(HERE / f"{name}_tiny.h5", *models[name])


if __name__ == "__main__":
    main()
