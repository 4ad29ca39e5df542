# Prints the expected values of run_size.cpp: batch, steps and learning rate by the laws that
# lib/search/size_rules.h cites, in plain Python.
import math


def size(parameters, tokens, seq_length, multiple):
    flops = 6 * parameters * tokens
    best = 0.2920 * flops**0.3271
    doublings = max(0, round(math.log2(min(best, tokens / 500) / (seq_length * multiple))))
    batch = multiple * 2**doublings
    share = min(1, batch * seq_length / best)
    lr = 0.3118 * max(flops, 1e17) ** -0.1250 * math.sqrt(share)
    return batch, max(1, tokens // (batch * seq_length)), f"{lr:.1e}"


for case in [
    (124_000_000, 2_480_000_000, 1024, 1),
    (5_868_800, 500_000, 256, 1),
    (7_000_000_000, 140_000_000_000, 4096, 64),
    (1_000_000, 1_000, 128, 8),
    (124_000_000, 2_480_000_000, 1024, 1024),
]:
    print(*case, *size(*case))
