#!/usr/bin/env python3
"""Speed of PyTorch on whole optimizer steps of GPT-2 124M, on the CPU.

Forward, backward, clipping and AdamW as gptrain does them: torch.compile, causal
scaled_dot_product_attention, fused AdamW, bf16 by autocast. The last line of stdout is one JSON object:

    {"torch": "2.13.0", "threads": 2, "cases": [{"shape": "B4xT64", "dtype": "fp32",
      "step_time_s": 0.63, "torch_tokens_per_s": 406.3}, ...]}

The time of a case is the median of its steps after the warm-up. A case that passes its time limit has
null for both numbers.
"""

import argparse
import json
import multiprocessing
import os
import statistics
import sys
import time

VOCAB, POSITIONS, LAYERS, HEADS, HIDDEN = 50257, 1024, 12, 12, 768


def build_model(torch, layers):
    """GPT-2: learned positions, LayerNorm, tanh-GELU, biases, head tied to the embedding."""
    nn, functional = torch.nn, torch.nn.functional

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.ln_1, self.ln_2 = nn.LayerNorm(HIDDEN), nn.LayerNorm(HIDDEN)
            self.qkv = nn.Linear(HIDDEN, 3 * HIDDEN)
            self.attn_proj = nn.Linear(HIDDEN, HIDDEN)
            self.fc = nn.Linear(HIDDEN, 4 * HIDDEN)
            self.mlp_proj = nn.Linear(4 * HIDDEN, HIDDEN)

        def forward(self, x):
            batch, seq, _ = x.shape
            qkv = self.qkv(self.ln_1(x)).view(batch, seq, 3, HEADS, HIDDEN // HEADS)
            q, k, v = qkv.permute(2, 0, 3, 1, 4)
            o = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.attn_proj(o.transpose(1, 2).reshape(batch, seq, HIDDEN))
            return x + self.mlp_proj(functional.gelu(self.fc(self.ln_2(x)), approximate="tanh"))

    class Gpt2(nn.Module):
        def __init__(self):
            super().__init__()
            self.wte, self.wpe = nn.Embedding(VOCAB, HIDDEN), nn.Embedding(POSITIONS, HIDDEN)
            self.blocks = nn.ModuleList(Block() for _ in range(layers))
            self.ln_f = nn.LayerNorm(HIDDEN)
            self.apply(initialise)

        def forward(self, ids, targets):
            x = self.wte(ids) + self.wpe(torch.arange(ids.shape[1]))
            for block in self.blocks:
                x = block(x)
            logits = functional.linear(self.ln_f(x), self.wte.weight)
            return functional.cross_entropy(logits.view(-1, VOCAB), targets.view(-1))

    def initialise(module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.02)

    return Gpt2()


def time_case(options, shape, dtype, results):
    """Puts the seconds of each step into `results`; runs in a process of its own."""
    import torch

    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    batch, seq = (int(word[1:]) for word in shape.split("x"))
    model = build_model(torch, options.layers)
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-4, betas=(0.9, 0.95), weight_decay=0.1,
                                  fused=True)
    run = torch.compile(model) if options.compile else model
    text = torch.randint(VOCAB, (batch, seq + 1))
    ids, targets = text[:, :-1].contiguous(), text[:, 1:].contiguous()

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=dtype == "bf16"):
            loss = run(ids, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.item()

    for _ in range(options.warmup):
        step()
    seconds = []
    for _ in range(options.steps):
        start = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - start)
    results.send(seconds)


def run_case(options, shape, dtype):
    """The case in a process that can be ended: a step on slow kernels may last for minutes."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=time_case, args=(options, shape, dtype, sender), daemon=True)
    process.start()
    sender.close()
    try:
        seconds = receiver.recv() if receiver.poll(options.limit) else None
    except EOFError:
        sys.exit(f"bench_torch: case {shape} {dtype} failed; see the error above")
    process.terminate()
    process.join()
    batch, seq = (int(word[1:]) for word in shape.split("x"))
    median = statistics.median(seconds) if seconds else None
    return {"shape": shape, "dtype": dtype, "step_time_s": median,
            "torch_tokens_per_s": batch * seq / median if median else None}


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", nargs="+", default=["B4xT64", "B1xT1024"], metavar="BbxTt",
                        help="sequences and their length (default: B4xT64 B1xT1024)")
    parser.add_argument("--dtypes", nargs="+", default=["fp32", "bf16"], choices=["fp32", "bf16"])
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--steps", type=int, default=5, help="timed steps (default: 5)")
    parser.add_argument("--warmup", type=int, default=2, help="steps before them (default: 2)")
    parser.add_argument("--layers", type=int, default=LAYERS, help="(default: 12)")
    parser.add_argument("--limit", type=float, default=600, metavar="SECONDS",
                        help="for one case, compilation included (default: 600)")
    parser.add_argument("--no-compile", dest="compile", action="store_false",
                        help="leave out torch.compile")
    return parser.parse_args()


def main():
    options = parse_options()
    try:
        import torch
    except ImportError:
        sys.exit("bench_torch: PyTorch is not installed (pip install torch)")
    cases = []
    for shape in options.shapes:
        for dtype in options.dtypes:
            cases.append(run_case(options, shape, dtype))
            print(cases[-1], file=sys.stderr)
    print(json.dumps({"torch": torch.__version__, "threads": options.threads, "cases": cases}))


if __name__ == "__main__":
    main()
