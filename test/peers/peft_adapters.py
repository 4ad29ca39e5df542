#!/usr/bin/env python3
"""The adapters of test/interop/adapters in PEFT: gptrain has their loss, merges them to a model with
their logits, and begins to train them on where they are.

    test/peers/peft_adapters.py
"""

import json

import compare
import support

ADAPTERS = support.ROOT / "test/interop/adapters"
# The section `adapter` of a run that trains one on.
SECTIONS = {
    "gpt2": "rank: 3, alpha: 12, targets: [attn.q, attn.k, attn.v, attn.proj, mlp.proj]",
    "llama": "rank: 4, alpha: 6, targets: [attn.q, attn.v, attn.proj, mlp.proj]",
}


def check(proof, folder):
    import peft
    import torch

    base = (ADAPTERS / json.loads((folder / "adapter_config.json").read_text())[
        "base_model_name_or_path"]).resolve()
    model = peft.PeftModel.from_pretrained(compare.load(base), folder).eval()
    ids = torch.tensor([compare.IDS])
    with torch.no_grad():
        loss = model(ids, labels=ids).loss.item()
        theirs = model(ids).logits[0]

    own = json.loads(proof.run(proof.gptrain, "eval", "--checkpoint", folder, "--adapted", base,
                               "--data", "ids_text_document").splitlines()[-1])["loss"]
    apart = abs(own / loss - 1)
    proof.claim(apart < compare.CLOSE, f"{folder.name} on its base has the loss that PEFT computes "
                f"within {compare.CLOSE:g}", f"{own:.6f}, {apart:.1e}")

    merged = f"merged-{folder.name}"
    proof.run(proof.gptrain, "export", folder, "--adapted", base, "--format", "hf", "--merge",
              "--output", merged)
    with torch.no_grad():
        ours = compare.load(proof.work / merged)(ids).logits[0]
    difference = ((ours - theirs).abs().max() / theirs.abs().max()).item()
    proof.claim(difference < compare.LOGITS_CLOSE, f"{folder.name}, merged, has the logits of PEFT in "
                f"transformers within {compare.LOGITS_CLOSE:g} of the largest", f"{difference:.1e}")

    if folder.name not in SECTIONS:
        return
    shown = proof.run(proof.gptrain, "inspect", base)
    (proof.work / "run.yaml").write_text(
        f"{shown[shown.index('model:'):]}\n{compare.SPEC}init_from: {folder}\n"
        f"output_dir: run-{folder.name}\nadapter: {{kind: lora, {SECTIONS[folder.name]}}}\n",
        encoding="utf-8")
    proof.run(proof.gptrain, "--config", "run.yaml",
              *(f"--set={setting}" for setting in compare.FIRST_STEP))
    lines = (proof.work / f"run-{folder.name}/metrics.jsonl").read_text(encoding="ascii").splitlines()
    first = next(line for line in map(json.loads, lines) if line.get("step") == 1)["loss"]
    apart = abs(first / loss - 1)
    proof.claim(apart < compare.CLOSE, f"{folder.name}, trained on, has PEFT's loss in its first step "
                f"within {compare.CLOSE:g}", f"{first:.6f}, {apart:.1e}")


def prove(proof):
    import torch
    import transformers

    torch.set_num_threads(2)
    transformers.utils.logging.disable_progress_bar()
    print(f"{proof.name}: {support.versions('torch', 'transformers', 'peft')}")
    compare.write_ids(proof)
    for folder in sorted(path for path in ADAPTERS.iterdir() if path.is_dir()):
        check(proof, folder)


support.main("peft", __doc__, prove)
