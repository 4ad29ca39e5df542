#!/usr/bin/env python3
"""Speed of PyTorch on whole optimizer steps of GPTs.

Forward, backward, clipping and AdamW as gptrain does them: torch.compile, causal
scaled_dot_product_attention, fused AdamW, bf16 by autocast. The last line of stdout is one JSON object.

Without --model: GPT-2 124M on the CPU.

    {"torch": "2.13.0", "threads": 2, "cases": [{"shape": "B4xT64", "dtype": "fp32",
      "step_time_s": 0.63, "torch_tokens_per_s": 406.3}, ...]}

The time of a case is the median of its steps after the warm-up. A case that passes its time limit has
null for both numbers.

With --model: that model on the first GPU in bf16, main parameters and gradients in fp32, the residual
stream in bf16, with the attention backend that is fastest in its shape and the cheapest checkpointing
that fits. `--sweep attention` times each attention backend.
"""

import argparse
import json
import multiprocessing
import os
import statistics
import sys
import time

from bench_torch_gpu import CHECKPOINTING, run_on_gpu, sweep_attention
from torch_gpt import GPT2, GPU_MODELS, build_model


def time_case(options, shape, dtype, results):
    """Puts the seconds of each step into `results`; runs in a child process."""
    import torch

    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    batch, seq = (int(word[1:]) for word in shape.split("x"))
    model = build_model(torch, GPT2._replace(layers=options.layers))
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-4, betas=(0.9, 0.95), weight_decay=0.1,
                                  fused=True)
    run = torch.compile(model) if options.compile else model
    text = torch.randint(GPT2.vocab, (batch, seq + 1))
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
    parser.add_argument("--layers", type=int, default=GPT2.layers, help="(default: 12)")
    parser.add_argument("--limit", type=float, default=600, metavar="SECONDS",
                        help="for one case, compilation included (default: 600)")
    parser.add_argument("--no-compile", dest="compile", action="store_false",
                        help="leave out torch.compile")
    gpu = parser.add_argument_group("on a GPU")
    gpu.add_argument("--model", choices=GPU_MODELS)
    gpu.add_argument("--sweep", choices=["attention"])
    gpu.add_argument("--microbatches", type=int, default=1, help="of a step (default: 1)")
    gpu.add_argument("--seconds", type=float, default=60,
                     help="for the timed steps, of which there are 5 at least (default: 60)")
    gpu.add_argument("--gpu-steps", type=int, default=20, help="at most (default: 20)")
    gpu.add_argument("--checkpointing", nargs="+", default=CHECKPOINTING, choices=CHECKPOINTING,
                     help="the first of these that fits: nothing, half of the activations, whole "
                     "blocks (default: all, in this order)")
    return parser.parse_args()


def main():
    options = parse_options()
    try:
        import torch
    except ImportError:
        sys.exit("bench_torch: PyTorch is not installed (pip install torch)")
    if options.model or options.sweep:
        options.device = "cuda" if torch.cuda.is_available() else "cpu"
        if options.device == "cpu" and options.model not in (None, "tiny"):
            sys.exit("bench_torch: PyTorch sees no GPU")
        print(json.dumps(run_on_gpu(options, torch) if options.model
                         else sweep_attention(torch, options.device)))
        return
    cases = []
    for shape in options.shapes:
        for dtype in options.dtypes:
            cases.append(run_case(options, shape, dtype))
            print(cases[-1], file=sys.stderr)
    print(json.dumps({"torch": torch.__version__, "threads": options.threads, "cases": cases}))


if __name__ == "__main__":
    main()
