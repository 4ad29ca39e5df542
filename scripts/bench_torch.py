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
import collections
import json
import multiprocessing
import os
import statistics
import sys
import time

# A model's sizes; of those on a GPU also the sequences of a microbatch and their length.
Size = collections.namedtuple("Size", "layers hidden heads positions vocab batch", defaults=[0])
GPT2 = Size(12, 768, 12, 1024, 50257)
GPU_MODELS = {
    "gpt2-124m": GPT2._replace(batch=64),
    "gpt2-1.5b": Size(48, 1600, 25, 1024, 50257, 32),
    "gpt3-6.7b": Size(32, 4096, 32, 2048, 50257, 4),
    "tiny": Size(2, 128, 2, 128, 1009, 2),  # tries this program itself
}
PEAK_FLOPS = 989e12  # dense bf16 of an H100 or H200 SXM
CHECKPOINTING = ["none", "half", "blocks"]  # from cheap to dear


def build_model(torch, size, stream_dtype=None, checkpoint=None):
    """GPT-2: learned positions, LayerNorm, tanh-GELU, biases, head tied to the embedding.

    `stream_dtype` is that of the residual stream where it is not the embedding's; `checkpoint` runs
    a block on its input.
    """
    nn, functional = torch.nn, torch.nn.functional
    hidden, heads = size.hidden, size.heads

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.ln_1, self.ln_2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
            self.qkv = nn.Linear(hidden, 3 * hidden)
            self.attn_proj = nn.Linear(hidden, hidden)
            self.fc = nn.Linear(hidden, 4 * hidden)
            self.mlp_proj = nn.Linear(4 * hidden, hidden)

        def forward(self, x):
            batch, seq, _ = x.shape
            qkv = self.qkv(self.ln_1(x)).view(batch, seq, 3, heads, hidden // heads)
            q, k, v = qkv.permute(2, 0, 3, 1, 4)
            o = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.attn_proj(o.transpose(1, 2).reshape(batch, seq, hidden))
            return x + self.mlp_proj(functional.gelu(self.fc(self.ln_2(x)), approximate="tanh"))

    class Gpt2(nn.Module):
        def __init__(self):
            super().__init__()
            self.wte, self.wpe = nn.Embedding(size.vocab, hidden), nn.Embedding(size.positions, hidden)
            self.blocks = nn.ModuleList(Block() for _ in range(size.layers))
            self.ln_f = nn.LayerNorm(hidden)
            self.apply(initialise)

        def embed(self, ids):
            x = self.wte(ids) + self.wpe(torch.arange(ids.shape[1], device=ids.device))
            return x if stream_dtype is None else x.to(stream_dtype)

        def loss(self, x, targets):
            logits = functional.linear(self.ln_f(x), self.wte.weight)
            return functional.cross_entropy(logits.view(-1, size.vocab), targets.view(-1))

        def forward(self, ids, targets):
            x = self.embed(ids)
            for block in self.blocks:
                x = block(x) if checkpoint is None else checkpoint(block, x)
            return self.loss(x, targets)

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


# ---- on a GPU ----


class Stopwatch:
    """Times between points in the work of a device."""

    def __init__(self, torch, device):
        self.torch, self.on_gpu = torch, device == "cuda"

    def synchronize(self):
        if self.on_gpu:
            self.torch.cuda.synchronize()

    def wait(self, point):
        if self.on_gpu:
            point.synchronize()

    def point(self):
        if not self.on_gpu:
            return time.perf_counter()
        event = self.torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def seconds(self, start, end):
        return start.elapsed_time(end) * 1e-3 if self.on_gpu else end - start

    def call(self, work, calls=10, batches=5):
        """Seconds of one call: the median of some batches."""
        work(), work()
        results = []
        for _ in range(batches):
            start = self.point()
            for _ in range(calls):
                work()
            end = self.point()
            self.synchronize()
            results.append(self.seconds(start, end) / calls)
        return statistics.median(results)


def attention_times(torch, device, size):
    """Seconds forward and backward of each attention backend that takes the model's shape."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    attention = torch.nn.functional.scaled_dot_product_attention
    watch = Stopwatch(torch, device)
    shape = (size.batch, size.positions, 3, size.heads, size.hidden // size.heads)
    packed = torch.randn(shape, dtype=torch.bfloat16, device=device)
    q, k, v = (x.detach().requires_grad_() for x in packed.permute(2, 0, 3, 1, 4))
    do = torch.randn_like(q)
    times = {}
    for backend in (SDPBackend.FLASH_ATTENTION, SDPBackend.CUDNN_ATTENTION,
                    SDPBackend.EFFICIENT_ATTENTION):
        with sdpa_kernel([backend]):
            try:
                o = attention(q, k, v, is_causal=True)
                forward = watch.call(lambda: attention(q, k, v, is_causal=True))
                backward = watch.call(
                    lambda: torch.autograd.grad(o, (q, k, v), do, retain_graph=True))
            except RuntimeError:  # not on this device, or not in this shape
                continue
        times[backend.name] = (forward, backward)
    return times


def sweep_attention(torch, device):
    rows = []
    for size in (size for name, size in GPU_MODELS.items() if (name == "tiny") != (device == "cuda")):
        flops = 2 * size.batch * size.positions**2 * size.hidden
        for backend, (forward, backward) in attention_times(torch, device, size).items():
            rows.append({
                "shape": f"B{size.batch} N{size.heads} D{size.hidden // size.heads} S{size.positions}",
                "kernel": "torch " + backend.lower().removesuffix("_attention"),
                "forward_ms": forward * 1e3, "forward_tflops": flops / forward * 1e-12,
                "backward_ms": backward * 1e3, "backward_tflops": 2.5 * flops / backward * 1e-12})
            print("{shape} {kernel}: forward {forward_ms:.3f} ms {forward_tflops:.0f} TFLOP/s, "
                  "backward {backward_ms:.3f} ms {backward_tflops:.0f} TFLOP/s".format(**rows[-1]))
    return {"bench": "attention", "torch": torch.__version__, "rows": rows}


def estimated_bytes(size, parameters, checkpointing):
    """A lower bound of what a step needs: parameters, gradients, both averages, bf16 weights, the
    activations that a block keeps in bf16, and the logits in bf16 and fp32."""
    tokens = size.batch * size.positions
    kept = {"none": 32, "half": 16, "blocks": 2}[checkpointing] * size.hidden * size.layers
    return 18 * parameters + tokens * (kept + 6 * size.vocab)


def time_on_gpu(options, checkpointing, sdpa, results):
    """Sends the case's numbers to `results`; runs in a process of its own, whose memory goes with
    it."""
    import torch
    import torch._functorch.config
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.checkpoint import checkpoint

    device = options.device
    size = GPU_MODELS[options.model]
    if options.layers != GPT2.layers:
        size = size._replace(layers=options.layers)
    torch.manual_seed(1)
    if checkpointing == "half":
        torch._functorch.config.activation_memory_budget = 0.5

    def whole_block(block, x):
        return checkpoint(block, x, use_reentrant=False)

    with torch.device(device):
        model = build_model(torch, size, torch.bfloat16,
                            whole_block if checkpointing == "blocks" else None)
    parameters = sum(p.numel() for p in model.parameters())
    total = torch.cuda.get_device_properties(0).total_memory if device == "cuda" else 1 << 60
    if estimated_bytes(size, parameters, checkpointing) > total:
        return results.send({"why": "does not fit"})
    run = model
    # Blocks are alike: compiled once, they are ready in seconds in a deep model too.
    by_block = size.layers > 12 or checkpointing == "blocks"
    if options.compile and by_block:
        for block in model.blocks:
            block.compile()
        model.loss = torch.compile(model.loss)
    elif options.compile:
        run = torch.compile(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1,
                                  fused=True)
    text = torch.randint(size.vocab, (options.microbatches, size.batch, size.positions + 1)).to(device)
    watch = Stopwatch(torch, device)

    def step():
        optimizer.zero_grad(set_to_none=True)
        for part in text:
            with torch.autocast(device, dtype=torch.bfloat16):
                loss = run(part[:, :-1].contiguous(), part[:, 1:].contiguous())
            (loss / options.microbatches).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return watch.point()

    def steps(most, fewest, seconds):
        """Times of so many steps, of fewer where these would take longer than that."""
        times, points = [], [step(), step()]
        while len(times) < most and (sum(times) < seconds or len(times) < fewest):
            points.append(step())  # one step ahead of what is waited for
            watch.wait(points[-2])
            times.append(watch.seconds(points[-3], points[-2]))
        return times

    try:
        with sdpa_kernel([SDPBackend.__members__[sdpa]]):
            steps(5, 2, 10)
            times = steps(options.gpu_steps, 5, options.seconds)
            watch.synchronize()
    except torch.OutOfMemoryError:
        return results.send({"why": "out of memory"})
    median = statistics.median(times)
    tokens_per_s = options.microbatches * size.batch * size.positions / median
    flops = tokens_per_s * (6 * parameters + 6 * size.layers * size.hidden * size.positions)
    results.send({
        "compile": ("blocks" if by_block else "whole") if options.compile else "none",
        "steps": len(times), "torch_step_time_s": median, "torch_tokens_per_s": tokens_per_s,
        "torch_mfu": flops / PEAK_FLOPS, "parameters": parameters,
        "torch_peak_bytes": torch.cuda.max_memory_allocated() if device == "cuda" else None})


def fastest_attention(options, results):
    import torch
    times = attention_times(torch, options.device, GPU_MODELS[options.model])
    results.send(min(times, key=lambda name: sum(times[name])) if times else "MATH")


def in_process(limit, work, *arguments):
    """What `work` sends from a process of its own; None where it fails or takes longer."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=work, args=(*arguments, sender), daemon=True)
    process.start()
    sender.close()
    try:
        return receiver.recv() if receiver.poll(limit) else None
    except EOFError:
        return None
    finally:
        process.terminate()
        process.join()


def run_on_gpu(options, torch):
    deadline = time.monotonic() + options.limit

    def left():
        return max(0, deadline - time.monotonic())

    sdpa = in_process(left(), fastest_attention, options) or "MATH"
    result = {"bench": "torch", "torch": torch.__version__, "model": options.model,
              "microbatches": options.microbatches, "sdpa": sdpa.lower().removesuffix("_attention"),
              "torch_step_time_s": None, "torch_tokens_per_s": None}
    tried = {}
    for checkpointing in options.checkpointing:
        case = in_process(left(), time_on_gpu, options, checkpointing, sdpa)
        if case is None or "why" in case:
            tried[checkpointing] = case["why"] if case else "failed, or out of time"
            continue
        result.update(case, checkpointing=checkpointing)
        break
    return {**result, "tried": tried}


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
