#!/usr/bin/env python3
"""The small models of test/interop/models in llama.cpp: what gptrain imports and exports as GGUF has the
logits that transformers computed when the folder was made (logits.safetensors).

    test/peers/small_gguf.py
"""

import support

MODELS = support.ROOT / "test/interop/models"
# What llama.cpp cannot compute: GELU by erf, layers without experts in Qwen's architectures, layers of
# another order than its own, and some classes and sizes (docs/interop.md).
REFUSED = {"gpt2_erf", "starcoder2_erf", "qwen2_moe", "qwen3_moe", "cohere2", "falcon", "falcon_one_norm",
           "gemma3", "glm", "gpt_neox", "gpt_neox_sequential", "gptj", "llama_geglu", "nemotron", "olmo2", "olmoe",
           "opt", "smollm3"}
CLOSE = 2e-6  # of the largest logit
GELU_CLOSE = 1e-3  # the same where llama.cpp looks up GELU in a table of fp16


def check(proof, folder):
    import llama_cpp
    from safetensors.numpy import load_file

    imported, exported = f"imported-{folder.name}", f"{folder.name}.gguf"
    proof.run(proof.gptrain, "import", folder, "--output", imported)
    proof.run(proof.gptrain, "export", imported, "--format", "gguf", "--dtype", "fp32",
              "--output", exported)
    # Keys and values of attention in fp32, as everywhere else; the default is fp16.
    peer = llama_cpp.Llama(str(proof.work / exported), n_ctx=256, logits_all=True, type_k=0, type_v=0,
                           flash_attn=False, verbose=False)
    expected = load_file(folder / "logits.safetensors")
    # The file's context ends at the model's window.
    context = int(peer.metadata[f"{peer.metadata['general.architecture']}.context_length"])
    ids = [int(token) for token in expected["ids"][:context]]
    theirs = expected["logits"][:len(ids)]
    peer.eval(ids)
    ours = peer.scores[:len(ids)]
    difference = abs(ours - theirs).max() / abs(theirs).max()
    same = int((ours.argmax(-1) == theirs.argmax(-1)).sum())
    close = GELU_CLOSE if folder.name.startswith(("gpt2", "starcoder2", "gpt_bigcode", "bloom", "gemma")) or folder.name == "phi" else CLOSE
    proof.claim(difference < close and same == len(ids),
                f"{folder.name} as GGUF has the logits of transformers in llama.cpp within {close:g} "
                "of the largest, and the same largest ones", f"{difference:.1e}, {same} of {len(ids)}")


def prove(proof):
    import llama_cpp  # noqa: F401

    print(f"{proof.name}: {support.versions('llama-cpp-python')}")
    for folder in sorted(path for path in MODELS.iterdir() if path.is_dir()):
        if folder.name not in REFUSED:
            check(proof, folder)


support.main("small-gguf", __doc__, prove)
