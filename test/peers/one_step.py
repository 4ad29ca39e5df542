#!/usr/bin/env python3
"""One step of training of the small models of test/interop/models: transformers computes the same loss
and the same norm of the gradient.

    test/peers/one_step.py
"""

import json
import struct

import support

MODELS = support.ROOT / "test/interop/models"
CLOSE = 1e-5  # of loss and norm
IDS = [(7 * i * i + 3 * i + 5) % 40 for i in range(25)]

SPEC = """
name: one
data: {train: [{prefix: ids_text_document}], split: "100,0,0", tokenizer: none}
training: {seq_length: 24, micro_batch_size: 1, steps: 1, eval_interval: 0}
device: cpu
"""


def write_ids(proof):
    """A token data set of one document."""
    (proof.work / "ids_text_document.bin").write_bytes(struct.pack(f"<{len(IDS)}H", *IDS))
    (proof.work / "ids_text_document.idx").write_bytes(
        b"MMIDIDX\0\0" + struct.pack("<QBQQiqqq", 1, 8, 1, 2, len(IDS), 0, 0, 1))


def step_of(proof, folder):
    """Loss and norm of the gradient of the first step by gptrain."""
    shown = proof.run(proof.gptrain, "inspect", folder)
    model = shown[shown.index("model:\n"):]
    (proof.work / "run.yaml").write_text(
        f"{model}\n{SPEC}init_from: {folder}\noutput_dir: run-{folder.name}\n", encoding="utf-8")
    proof.run(proof.gptrain, "--config", "run.yaml")
    lines = (proof.work / f"run-{folder.name}/metrics.jsonl").read_text(encoding="ascii")
    step = next(line for line in map(json.loads, lines.splitlines()) if line.get("step") == 1)
    return step["loss"], step["grad_norm"]


def step_of_peer(folder):
    import torch
    import transformers

    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    ids = torch.tensor([IDS])
    loss = model(ids, labels=ids).loss
    loss.backward()
    # Biases that are zero belong to the class alone; gptrain's model has none.
    norms = [weight.grad.norm() for weight in model.parameters() if weight.any()]
    return loss.item(), torch.stack(norms).norm().item()


def prove(proof):
    import torch
    import transformers

    torch.set_num_threads(2)
    transformers.utils.logging.disable_progress_bar()
    print(f"{proof.name}: {support.versions('torch', 'transformers')}; {len(IDS)} tokens")
    write_ids(proof)
    for folder in sorted(path for path in MODELS.iterdir() if path.is_dir()):
        loss, norm = step_of(proof, folder)
        peer_loss, peer_norm = step_of_peer(folder)
        proof.claim(abs(loss / peer_loss - 1) < CLOSE and abs(norm / peer_norm - 1) < CLOSE,
                    f"loss and gradient norm of {folder.name} are those of transformers within "
                    f"{CLOSE:g}", f"{loss:.7f} and {peer_loss:.7f}, {norm:.7f} and {peer_norm:.7f}")


support.main("one-step", __doc__, prove)
