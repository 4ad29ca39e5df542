#!/usr/bin/env python3
"""Makes the folders of models/ of the families in family_models.py and their logits, with Hugging
Face's transformers (5.23; torch 2.13), as make_hf_models.py makes those of the other classes.

    test/interop/make_family_models.py [FAMILY...]
"""
import pathlib
import shutil
import sys

import torch
from family_models import FAMILIES, LOGITS_ONLY, make
from safetensors.torch import save_file

FOLDER = pathlib.Path(__file__).parent / "models"


def margin(net, ids):
    """How far tokens are from another choice of experts, and the logits."""
    margins = [1.0]

    def look(router, _, outputs):
        scores = outputs[0].softmax(-1).sort(dim=-1, descending=True).values
        margins.append((scores[..., router.top_k - 1] - scores[..., router.top_k]).min().item())

    hooks = [module.register_forward_hook(look) for module in net.modules()
             if type(module).__name__.lower().endswith("topkrouter")]
    logits = net(ids[None]).logits[0]
    for hook in hooks:
        hook.remove()
    return min(margins), logits


def main():
    for name in sys.argv[1:] or [*FAMILIES, *LOGITS_ONLY]:
        folder = FOLDER / name
        shutil.rmtree(folder, ignore_errors=True)
        made = make(name)
        made.save_pretrained(folder)
        # Only eager attention has soft caps and sinks on every CPU.
        net = type(made).from_pretrained(folder, dtype=torch.float32,
                                         attn_implementation="eager").eval()
        nearest = 0
        with torch.no_grad():
            while nearest < 1e-3:
                ids = torch.randint(40, (24,))
                nearest, logits = margin(net, ids)
        save_file({"ids": ids.float(), "logits": logits.contiguous()},
                  folder / "logits.safetensors")


main()
