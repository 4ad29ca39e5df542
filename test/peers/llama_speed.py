#!/usr/bin/env python3
"""How fast gptrain and llama.cpp read a prompt and write after it, one text at a time: the table of
docs/performance.md, for a Llama-like model and for GPT-2 124M, with random weights.

    test/peers/llama_speed.py

`gptrain serve` streams from the checkpoint, llama.cpp from the GGUF file that `gptrain export`
wrote of it, in fp32 and bf16; q8_0, which llama.cpp makes of the former, meets
precision.frozen=int8. Both have a thread for each core and take turns; the figures are medians of
the rounds. A speed is no claim: what can fail is that both compute the same model. Wants an
otherwise idle machine and 5 GB of memory.
"""

import contextlib
import http.client
import itertools
import json
import logging
import os
import shutil
import statistics
import struct
import time
import urllib.parse

import support

MODELS = {
    "Llama-like, 110 million": """
num_layers: 12, hidden_size: 768, num_attention_heads: 12, ffn_hidden_size: 2048, vocab_size: 32000,
max_position_embeddings: 1024, position_embedding: rope, normalization: rmsnorm, activation: swiglu,
bias: false, tie_embeddings: true""",
    "GPT-2 124M": """
num_layers: 12, hidden_size: 768, num_attention_heads: 12, vocab_size: 50257,
max_position_embeddings: 1024""",
}
SPEC = """
name: random
data: {train: [{prefix: ids_text_document}], split: "100,0,0", tokenizer: none}
training: {seq_length: 16, micro_batch_size: 1, steps: 1, eval_interval: 0}
precision: {compute: fp32}
device: cpu
"""
PROMPT = [(7 * i * i + 3 * i + 5) % 32000 for i in range(512)]
WRITTEN = 65  # the first of them ends the time of the prompt
ROUNDS = 5
THREADS = len(os.sched_getaffinity(0))
HEAD = """| weights | prompt, tokens/s | llama.cpp | ratio | written, tokens/s | llama.cpp | ratio |
|---|---|---|---|---|---|---|"""
CLOSE = 2 ** -10  # of log-probabilities in fp32: llama.cpp keeps keys and values in fp16
Q8_0 = 7  # llama.cpp's number of the type of a file

# For each row: the settings of gptrain serve, and the GGUF file.
ROWS = {
    "fp32": (["precision.compute=fp32"], "fp32.gguf"),
    "bf16": (["precision.compute=bf16"], "bf16.gguf"),
    "8 bits": (["precision.compute=bf16", "precision.frozen=int8"], "q8_0.gguf"),
}


def make_model(proof, shape):
    """Trains one step of random weights; writes the three GGUF files."""
    import llama_cpp

    logging.getLogger("llama-cpp-python").setLevel(logging.ERROR)
    (proof.work / "ids_text_document.bin").write_bytes(struct.pack("<64H", *PROMPT[:64]))
    (proof.work / "ids_text_document.idx").write_bytes(
        b"MMIDIDX\0\0" + struct.pack("<QBQQiqqq", 1, 8, 1, 2, 64, 0, 0, 1))
    run = proof.work / "run"
    (proof.work / "run.yaml").write_text(f"{SPEC}model: {{{shape}}}\noutput_dir: {run}\n",
                                         encoding="utf-8")
    proof.run(proof.gptrain, "--config", "run.yaml")
    for dtype in ("fp32", "bf16"):
        proof.run(proof.gptrain, "export", run, "--format", "gguf", "--dtype", dtype, "--output",
                  f"{dtype}.gguf")
    options = llama_cpp.llama_model_quantize_default_params()
    options.ftype = Q8_0
    files = [bytes(proof.work / name) for name in ("fp32.gguf", "q8_0.gguf")]
    if llama_cpp.llama_model_quantize(*files, options):
        raise RuntimeError("llama.cpp cannot make q8_0.gguf")
    return run


def rates_of(start, times):
    """Tokens per second of the prompt, and of the tokens after the first one."""
    return len(PROMPT) / (times[0] - start), (len(times) - 1) / (times[-1] - times[0])


def by_gptrain(server):
    """Rates of an answer of gptrain serve, as its stream brings it."""
    body = dict(prompt=PROMPT, max_tokens=WRITTEN, temperature=0, stream=True)
    connection = http.client.HTTPConnection(urllib.parse.urlsplit(server.url).netloc, timeout=600)
    times = []
    start = time.perf_counter()
    connection.request("POST", "/v1/completions", json.dumps(body))
    for line in connection.getresponse():
        if line.startswith(b"data: {"):
            tokens = json.loads(line[6:])["choices"][0]["text"].split()
            times += [time.perf_counter()] * len(tokens)
    connection.close()
    return rates_of(start, times)


def by_llama(peer):
    peer.reset()
    start = time.perf_counter()
    tokens = itertools.islice(peer.generate(PROMPT, temp=0), WRITTEN)
    return rates_of(start, [time.perf_counter() for _ in tokens])


def check_same(proof, model, server, peer):
    """Both are as sure of the tokens that may follow the prompt."""
    import numpy

    body = dict(prompt=PROMPT, max_tokens=1, temperature=0, logprobs=20)
    likeliest = server.ask("/v1/completions", body)[1]["choices"][0]["logprobs"]["top_logprobs"][0]
    peer.reset()
    peer.eval(PROMPT)
    logits = numpy.ctypeslib.as_array(peer._ctx.get_logits(), shape=(peer.n_vocab(),))
    log_sum = numpy.logaddexp.reduce(logits.astype(numpy.float64))
    difference = max(abs((logits[int(token)] - log_sum) / ours - 1)
                     for token, ours in likeliest.items())
    proof.claim(difference < CLOSE, f"{model}: log-probabilities of the {len(likeliest)} likeliest "
                f"tokens after the prompt are those of llama.cpp within {CLOSE:.1e}",
                f"{difference:.1e}")


@contextlib.contextmanager
def both(proof, run, row):
    """A server of gptrain and the peer, each with the weights of a row."""
    import llama_cpp

    settings, file = ROWS[row]
    options = [word for setting in settings for word in ("--set", setting)]
    peer = llama_cpp.Llama(str(proof.work / file), n_ctx=len(PROMPT) + WRITTEN, n_threads=THREADS,
                           n_threads_batch=THREADS, verbose=False)
    with contextlib.closing(peer), proof.server(run, "--answers", "1", *options) as server:
        yield server, peer


def row_of(name, rates):
    cells = [name]
    for kind in (0, 1):
        ours = statistics.median(pair[0][kind] for pair in rates)
        theirs = statistics.median(pair[1][kind] for pair in rates)
        ratio = statistics.median(pair[0][kind] / pair[1][kind] for pair in rates)
        cells += [f"{ours:,.0f}", f"{theirs:,.0f}", f"{ratio:.2f}"]
    return "| " + " | ".join(cells) + " |"


def table_of(proof, model, run):
    rows = []
    for row in ROWS:
        with both(proof, run, row) as (server, peer):
            rounds = [(by_gptrain(server), by_llama(peer)) for _ in range(ROUNDS + 1)]
            rows.append(row_of(row, rounds[1:]))  # the first round warms up
            if row == "fp32":
                check_same(proof, model, server, peer)
    return [HEAD, *rows]


def prove(proof):
    print(f"{proof.name}: {support.versions('llama-cpp-python')}; {THREADS} threads, a prompt of "
          f"{len(PROMPT)} tokens, {WRITTEN - 1} after the first, {ROUNDS} rounds")
    for model, shape in MODELS.items():
        run = make_model(proof, " ".join(shape.split()))
        print(f"\n{model}:\n", *table_of(proof, model, run), sep="\n", flush=True)
        for path in (run, *proof.work.glob("*.gguf")):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


support.main("llama", __doc__, prove)
