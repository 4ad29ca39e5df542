"""Compares gptrain with transformers: a model that was imported and exported has the same logits, one
step of training the same loss, the same norm of the gradient and the same gradient of every tensor, and
three steps of AdamW the same weights."""

import json
import re
import struct

import support

CLOSE = 1e-5  # of loss and norm
LOGITS_CLOSE = 2e-5  # of the largest logit
# The longest way to a gradient has some 1,000 roundings in a row, each of up to 2^-24: sums of 16 to 40
# terms, forward and backward through two layers and the head.
GRADIENT_CLOSE = 1000 * 2.0**-24  # of the largest gradient of a tensor
# Norms that hold what is added to 1 lend their place to gradients times this, so that 1 rounds little.
LESS_1_SCALE = 2.0**16
# Of three steps' learning rate. Where a gradient is far below eps its rounding moves a weight little.
WEIGHTS_CLOSE = 1e-3
LR, EPS, WEIGHT_DECAY = 1e-3, 1e-4, 0.1
IDS = [(7 * i * i + 3 * i + 5) % 40 for i in range(25)]

# With the optimizer of FIRST_STEP the first moment after a step is the gradient.
SPEC = """
name: one
data: {train: [{prefix: ids_text_document}], split: "100,0,0", tokenizer: none}
training: {seq_length: 24, micro_batch_size: 1, eval_interval: 0}
device: cpu
"""
FIRST_STEP = "training.steps=1", "optimizer.betas=[0.0, 0.95]", "optimizer.clip_grad=0"
THREE_STEPS = ("training.steps=3", "optimizer.betas=[0.9, 0.95]", "optimizer.clip_grad=0", f"optimizer.lr={LR}",
               f"optimizer.eps={EPS}", f"optimizer.weight_decay={WEIGHT_DECAY}", "lr_schedule.kind=constant",
               "lr_schedule.warmup_steps=0")


def write_ids(proof):
    """A token data set of one document."""
    (proof.work / "ids_text_document.bin").write_bytes(struct.pack(f"<{len(IDS)}H", *IDS))
    (proof.work / "ids_text_document.idx").write_bytes(
        b"MMIDIDX\0\0" + struct.pack("<QBQQiqqq", 1, 8, 1, 2, len(IDS), 0, 0, 1))


def load(folder):
    import torch
    import transformers

    return transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32,
                                                             attn_implementation="eager").eval()


def check_export(proof, folder, model):
    """Imports the folder and exports it again."""
    import torch

    imported, exported = f"imported-{folder.name}", f"exported-{folder.name}"
    proof.run(proof.gptrain, "import", folder, "--output", imported)
    proof.run(proof.gptrain, "export", imported, "--format", "hf", "--output", exported)
    ids = torch.tensor([IDS[:-1]])
    with torch.no_grad():
        ours, theirs = (net(ids).logits[0] for net in (load(proof.work / exported), model))
    difference = ((ours - theirs).abs().max() / theirs.abs().max()).item()
    same = (ours.argmax(-1) == theirs.argmax(-1)).sum().item()
    proof.claim(difference < LOGITS_CLOSE and same == len(theirs),
                f"{folder.name}, imported and exported, has its logits in transformers within "
                f"{LOGITS_CLOSE:g} of the largest, and the same largest ones",
                f"{difference:.1e}, {same} of {len(theirs)}")


def datasets(checkpoint, group):
    """The values of tensors, by their names in gptrain."""
    import h5py

    with h5py.File(checkpoint / "model.h5") as file:
        return {name: values[()] for name, values in file[group].items()}


def train(proof, folder, name, settings):
    """The output directory of a run of gptrain that starts with the folder."""
    shown = proof.run(proof.gptrain, "inspect", folder)
    model = shown[shown.index("model:\n"):]
    (proof.work / "run.yaml").write_text(f"{model}\n{SPEC}init_from: {folder}\noutput_dir: {name}\n",
                                         encoding="utf-8")
    # The loss of transformers has no part for the balance of experts, and no bias moves.
    settings = [*settings, *(f"model.experts.balance.{key}=0" for key in ("aux_weight", "bias_rate")
                             if re.search(rf"{key}: \d", model))]
    proof.run(proof.gptrain, "--config", "run.yaml", *(f"--set={setting}" for setting in settings))
    return proof.work / name


def step_of(proof, folder):
    """Loss, norm of the gradient and gradients of the first step by gptrain."""
    run = train(proof, folder, f"run-{folder.name}", FIRST_STEP)
    lines = (run / "metrics.jsonl").read_text(encoding="ascii")
    step = next(line for line in map(json.loads, lines.splitlines()) if line.get("step") == 1)
    return step["loss"], step["grad_norm"], datasets(run / "checkpoints/step-000001", "exp_avg")


def is_norm(name):
    """True for a norm of gptrain's."""
    return name.endswith(".weight") and ("ln_" in name or "_norm." in name)


def step_of_peer(proof, folder, model, less_1=False):
    """The same by transformers. The names of gradients are those of gptrain: they take the place of the
    model's weights, and gptrain imports them. `less_1`: norms hold what is added to 1."""
    import torch

    ids = torch.tensor([IDS])
    loss = model(ids, labels=ids).loss
    loss.backward()
    with torch.no_grad():
        for weight in model.parameters():
            # Zero biases exist only in the class; gptrain's model has none.
            weight.copy_(weight.grad * weight.any())
        norm = torch.stack([weight.norm() for weight in model.parameters()]).norm()
        if less_1:
            for name, weight in model.named_parameters():
                if "norm" in name and name.endswith("weight"):
                    weight *= LESS_1_SCALE
    name = f"gradients-{folder.name}"
    model.save_pretrained(proof.work / name)
    proof.run(proof.gptrain, "import", name, "--output", f"{name}-imported")
    weights = datasets(proof.work / f"{name}-imported", "weight")
    # The bias of the choice of experts has no gradient.
    gradients = {one: values for one, values in weights.items() if not one.endswith(".balance")}
    if less_1:
        gradients = {one: (values - 1) / LESS_1_SCALE if is_norm(one) else values
                     for one, values in gradients.items()}
    return loss.item(), norm.item(), gradients


def largest(name, gradients):
    """The largest gradient of a tensor. Without rotations the loss does not depend on the bias of k, whose
    gradient is made of roundings: the biases of q, k and v count as one, as GPT-2 stores them."""
    names = {re.sub(r"attn\.[qkv]\.bias$", f"attn.{one}.bias", name) for one in "qkv"}
    return max(abs(gradients[one]).max() for one in names)


def check_gradients(proof, name, ours, theirs):
    difference = {one: abs(ours[one] - theirs[one]).max() / largest(one, theirs)
                  for one in ours.keys() & theirs.keys()}
    worst = max(difference, key=difference.get)
    proof.claim(ours.keys() == theirs.keys() and difference[worst] < GRADIENT_CLOSE,
                f"every gradient of {name} is that of transformers within {GRADIENT_CLOSE:.1e} of the "
                f"tensor's largest",
                f"{len(difference)} tensors, {difference[worst]:.1e} in {worst}")


def check_steps(proof, folder, model):
    """Three steps of AdamW on the same tokens."""
    import torch

    run = train(proof, folder, f"steps-{folder.name}", THREE_STEPS)
    ours = datasets(run / "checkpoints/step-000003", "weight")
    # Biases that gptrain's model lacks, which are 0 here, stay 0.
    matrices, vectors = [], []
    for name, weight in model.named_parameters():
        if weight.any():
            # The biases of all experts of a layer are one tensor.
            (vectors if weight.dim() == 1 or name.endswith("bias") else matrices).append(weight)
    optimizer = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": WEIGHT_DECAY}, {"params": vectors, "weight_decay": 0.0}],
        lr=LR, betas=(0.9, 0.95), eps=EPS)
    ids = torch.tensor([IDS])
    for _ in range(3):
        model.zero_grad()
        model(ids, labels=ids).loss.backward()
        optimizer.step()
    name = f"stepped-{folder.name}"
    model.save_pretrained(proof.work / name)
    proof.run(proof.gptrain, "import", name, "--output", f"{name}-imported")
    theirs = datasets(proof.work / f"{name}-imported", "weight")
    difference = {one: abs(ours[one] - theirs[one]).max() / (3 * LR) for one in ours}
    worst = max(difference, key=difference.get)
    proof.claim(ours.keys() == theirs.keys() and difference[worst] < WEIGHTS_CLOSE,
                f"after three steps of AdamW every weight of {folder.name} is that of transformers within "
                f"{WEIGHTS_CLOSE:g} of the steps' length",
                f"{len(difference)} tensors, {difference[worst]:.1e} in {worst}")


def check_model(proof, folder, less_1=False):
    """All of it, for the model in a folder."""
    model = load(folder)
    check_export(proof, folder, model)
    loss, norm, gradients = step_of(proof, folder)
    peer_loss, peer_norm, peer_gradients = step_of_peer(proof, folder, model, less_1)
    proof.claim(abs(loss / peer_loss - 1) < CLOSE and abs(norm / peer_norm - 1) < CLOSE,
                f"loss and gradient norm of {folder.name} are those of transformers within "
                f"{CLOSE:g}", f"{loss:.7f} and {peer_loss:.7f}, {norm:.7f} and {peer_norm:.7f}")
    check_gradients(proof, folder.name, gradients, peer_gradients)
    check_steps(proof, folder, load(folder))
