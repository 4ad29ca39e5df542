"""The part of bench_torch.py that runs on a GPU."""

import multiprocessing
import statistics
import time

from torch_gpt import GPT2, GPU_MODELS, build_model

PEAK_FLOPS = 989e12  # dense bf16 of an H100 or H200 SXM
CHECKPOINTING = ["none", "half", "blocks"]  # from cheap to dear


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


def model_for(options, torch, size, checkpointing):
    """The model on the device, its residual stream in bf16."""
    from torch.utils.checkpoint import checkpoint

    def whole_block(block, x):
        return checkpoint(block, x, use_reentrant=False)

    with torch.device(options.device):
        return build_model(torch, size, torch.bfloat16,
                           whole_block if checkpointing == "blocks" else None)


def compiled(options, torch, model, by_block):
    """The model to run: itself, its blocks compiled in place, or compiled as a whole."""
    if not options.compile:
        return model
    if not by_block:
        return torch.compile(model)
    for block in model.blocks:
        block.compile()
    model.loss = torch.compile(model.loss)
    return model


def step_times(options, torch, model, run, size, sdpa):
    """Seconds of each timed step; None if the device's memory does not suffice."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1,
                                  fused=True)
    shape = (options.microbatches, size.batch, size.positions + 1)
    text = torch.randint(size.vocab, shape).to(options.device)
    watch = Stopwatch(torch, options.device)

    def step():
        optimizer.zero_grad(set_to_none=True)
        for part in text:
            with torch.autocast(options.device, dtype=torch.bfloat16):
                loss = run(part[:, :-1].contiguous(), part[:, 1:].contiguous())
            (loss / options.microbatches).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return watch.point()

    def steps(most, fewest, seconds):
        """Times of up to `most` steps; of fewer if these would take longer than `seconds`."""
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
            return times
    except torch.OutOfMemoryError:
        return None


def time_on_gpu(options, checkpointing, sdpa, results):
    """Sends the case's numbers to `results` from a child process, whose end frees its memory."""
    import torch
    import torch._functorch.config

    size = GPU_MODELS[options.model]
    if options.layers != GPT2.layers:
        size = size._replace(layers=options.layers)
    torch.manual_seed(1)
    if checkpointing == "half":
        torch._functorch.config.activation_memory_budget = 0.5
    model = model_for(options, torch, size, checkpointing)
    parameters = sum(p.numel() for p in model.parameters())
    on_gpu = options.device == "cuda"
    total = torch.cuda.get_device_properties(0).total_memory if on_gpu else 1 << 60
    if estimated_bytes(size, parameters, checkpointing) > total:
        return results.send({"why": "does not fit"})
    # Blocks are alike: compiled once, they are ready in seconds in a deep model too.
    by_block = size.layers > 12 or checkpointing == "blocks"
    run = compiled(options, torch, model, by_block)
    times = step_times(options, torch, model, run, size, sdpa)
    if times is None:
        return results.send({"why": "out of memory"})
    median = statistics.median(times)
    tokens_per_s = options.microbatches * size.batch * size.positions / median
    flops = tokens_per_s * (6 * parameters + 6 * size.layers * size.hidden * size.positions)
    results.send({
        "compile": ("blocks" if by_block else "whole") if options.compile else "none",
        "steps": len(times), "torch_step_time_s": median, "torch_tokens_per_s": tokens_per_s,
        "torch_mfu": flops / PEAK_FLOPS, "parameters": parameters,
        "torch_peak_bytes": torch.cuda.max_memory_allocated() if on_gpu else None})


def fastest_attention(options, results):
    import torch
    times = attention_times(torch, options.device, GPU_MODELS[options.model])
    results.send(min(times, key=lambda name: sum(times[name])) if times else "MATH")


def in_process(limit, work, *arguments):
    """The numbers that `work` sends from a child process; None where it fails or takes longer."""
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
