#!/usr/bin/env python3
"""Makes expected_random.h: random numbers computed apart from gptrain.

Run:   make_random_fixture.py          writes the header next to this script.

Needs Python alone. Philox 4x32-10 is written from the paper (Salmon et al., "Parallel random
numbers: as easy as 1, 2, 3", SC11) and compared here with the known answers of its authors; streams,
masks and starting weights follow docs/numerics.md and lib/backend/value_ops.h, in whole numbers and
double precision. Nothing is shared with gptrain's code.
"""

import math
import os
import struct

WORD = 2**32 - 1
SITES = ["embedding", "attention", "attention_output", "mlp_output"]


def philox(counter, key):
    """Four words of output for the counter (four words) under the key (two words)."""
    x0, x1, x2, x3 = counter
    k0, k1 = key
    for _ in range(10):
        high0, low0 = divmod(0xD2511F53 * x0, 2**32)
        high1, low1 = divmod(0xCD9E8D57 * x2, 2**32)
        x0, x1, x2, x3 = high1 ^ x1 ^ k0, low1, high0 ^ x3 ^ k1, low0
        k0 = (k0 + 0x9E3779B9) & WORD
        k1 = (k1 + 0xBB67AE85) & WORD
    return [x0, x1, x2, x3]


# From Random123's kat_vectors: counter, key, words.
KNOWN_ANSWERS = [
    ([0] * 4, [0] * 2, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
    ([WORD] * 4, [WORD] * 2, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
    (
        [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
        [0xA4093822, 0x299F31D0],
        [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
    ),
]


def halves(number):
    return [number & WORD, number >> 32]


def stream(seed, a, b, c):
    """The key of a stream: the first two words of its coordinates under the seed."""
    return philox(halves(a) + [b, c], halves(seed))[:2]


def name_hash(name):
    """64-bit FNV-1a."""
    value = 14695981039346656037
    for byte in name.encode():
        value = (value ^ byte) * 1099511628211 % 2**64
    return value


def threshold(probability):
    """The probability as a fraction of 2^32; words below it are dropped."""
    return int(probability * 2**32)


def kept(key, probability, sequence, position, head, index):
    """True if feature or key `index` is kept."""
    word = philox([sequence, position, head, index // 4], key)[index % 4]
    return word >= threshold(probability)


def weight(seed, name, element):
    """Element of N(0, 1) by Box-Muller."""
    words = philox(halves(element // 4) + [0, 0], stream(seed, name_hash(name), 0, 0))
    first, second = words[:2] if element % 4 < 2 else words[2:]
    radius = math.sqrt(-2 * math.log((first // 256 + 1) / 2**24))
    angle = 2 * math.pi * (second // 256) / 2**24
    return radius * (math.cos(angle) if element % 2 == 0 else math.sin(angle))


STREAMS = [  # seed, a, b, c
    (1234, 1, 1, 0),
    (1234, 1, 4, 3),
    (0x123456789ABCDEF0, 2**32 + 5, 3, 95),
    (2**64 - 1, 2**64 - 1, WORD, WORD),
]

NAMES = ["", "wte.weight", "h.0.attn.q.weight", "h.11.mlp.proj.bias"]

def fp32(number):
    return struct.unpack("f", struct.pack("f", number))[0]


PROBABILITIES = [fp32(p) for p in (0.0, 2.0**-32, 0.1, 0.5, 0.9)]

# All probabilities of masks are exact in fp32.
FEATURES, ROWS, SEQUENCES = 40, 5, 2
FEATURE_MASKS = [  # probability, seed, step, site, layer, first sequence, rows
    (0.5, 1234, 1, 0, 0, 0, (0, ROWS, 0)),
    (0.25, 1234, 7, 2, 3, 6, (0, ROWS, 0)),
    (0.25, 1234, 7, 2, 2, 6, (0, ROWS, 0)),
    (0.25, 1234, 7, 3, 2, 6, (0, ROWS, 0)),
    (0.5, 99, 8, 0, 0, 1, (512, ROWS, 0)),
    (0.125, 0x123456789ABCDEF0, 2**32 + 5, 3, 95, 3000, (128, 2, 70000)),
]

QUERIES, KEYS, HEADS, FIRST_QUERY = 9, 13, 2, 4
ATTENTION_MASKS = [  # probability, seed, step, layer, first sequence, first head
    (0.5, 1234, 1, 0, 0, 0),
    (0.25, 1234, 7, 3, 6, 6),
    (0.125, 0x123456789ABCDEF0, 2**32 + 5, 95, 3000, 62),
]

VALUES = 24
WEIGHTS = [  # seed, name, first element
    (1234, "wte.weight", 0),
    (1234, "h.0.attn.q.weight", 0),
    (1234, "h.0.attn.k.weight", 6),
    (2**40 + 1234, "wte.weight", 0),
    (1234, "h.11.mlp.proj.weight", 2**34 - 9),  # the block number passes 32 bits
]


def feature_rows(case):
    probability, seed, step, site, layer, first_sequence, rows = case
    first_begin, first_count, second_begin = rows
    key = stream(seed, step, 1 + site, layer)
    for sequence in range(SEQUENCES):
        for row in range(ROWS):
            position = first_begin + row
            if row >= first_count:
                position = second_begin + row - first_count
            yield "".join(
                "01"[kept(key, probability, first_sequence + sequence, position, 0, feature)]
                for feature in range(FEATURES)
            )


def attention_rows(case):
    probability, seed, step, layer, first_sequence, first_head = case
    key = stream(seed, step, 1 + SITES.index("attention"), layer)
    for sequence in range(SEQUENCES):
        for head in range(HEADS):
            for query in range(FIRST_QUERY, FIRST_QUERY + QUERIES):
                yield "".join(
                    "01"[kept(key, probability, first_sequence + sequence, query,
                              first_head + head, k)] if k <= query else "."
                    for k in range(KEYS)
                )


def quoted(rows):
    return "\n".join(f'     "{row}"' for row in rows)


HEAD = """\
// Random numbers computed apart from gptrain by make_random_fixture.py, which wrote this file.
#pragma once

#include <cstdint>
#include <string_view>

// clang-format off
namespace gptrain::expected {

struct Stream {
    std::uint64_t seed, a;
    std::uint32_t b, c;
    std::uint32_t low, high;  ///< of its key
};

struct NameHash {
    std::string_view name;
    std::uint64_t hash;
};

struct Threshold {
    float probability;
    std::uint32_t threshold;  ///< words below it are dropped
};

/// '1': kept, '0': dropped; row by row.
struct FeatureMask {
    float probability;
    std::uint64_t seed;
    std::int64_t step;
    std::uint32_t site, layer;
    std::int64_t first_sequence;
    std::int64_t first_begin, first_count, second_begin;  ///< positions of the rows
    std::string_view mask;  ///< [sequences, rows, features]
};

struct AttentionMask {
    float probability;
    std::uint64_t seed;
    std::int64_t step;
    std::uint32_t layer;
    std::int64_t first_sequence, first_head;
    std::string_view mask;  ///< [sequences, heads, queries, keys]; '.': not visible
};

/// Elements of N(0, 1) from the first one on.
struct Weights {
    std::uint64_t seed;
    std::string_view name;
    std::int64_t first;
    double values[%d];
};
"""


def write(out):
    def table(kind, name, rows):
        out.write(f"\nconstexpr {kind} {name}[] = {{\n")
        out.writelines(f"    {{{row}}},\n" for row in rows)
        out.write("};\n")

    out.write(HEAD % VALUES)
    out.write(f"\nconstexpr std::int64_t sequences = {SEQUENCES}, rows = {ROWS}, "
              f"features = {FEATURES};\n")
    out.write(f"constexpr std::int64_t queries = {QUERIES}, keys = {KEYS}, heads = {HEADS}, "
              f"first_query = {FIRST_QUERY};\n")
    table("Stream", "streams", (
        f"{seed}u, {a}u, {b}u, {c}u, {low:#010x}, {high:#010x}"
        for seed, a, b, c in STREAMS for low, high in [stream(seed, a, b, c)]))
    table("NameHash", "name_hashes", (f'"{name}", {name_hash(name):#x}' for name in NAMES))
    table("Threshold", "thresholds", (f"{p!r}f, {threshold(p)}u" for p in PROBABILITIES))
    table("FeatureMask", "feature_masks", (
        f"{case[0]}f, {case[1]}u, {case[2]}, {case[3]}, {case[4]}, {case[5]}, "
        f"{', '.join(map(str, case[6]))},  // {SITES[case[3]]}\n{quoted(feature_rows(case))}"
        for case in FEATURE_MASKS))
    table("AttentionMask", "attention_masks", (
        f"{case[0]}f, {case[1]}u, {', '.join(map(str, case[2:]))},\n{quoted(attention_rows(case))}"
        for case in ATTENTION_MASKS))
    table("Weights", "weights", (
        f'{seed}u, "{name}", {first},\n     {{'
        + ",\n      ".join(repr(weight(seed, name, first + i)) for i in range(VALUES)) + "}"
        for seed, name, first in WEIGHTS))
    out.write("\n}  // namespace gptrain::expected\n// clang-format on\n")


def main():
    for counter, key, words in KNOWN_ANSWERS:
        assert philox(counter, key) == words
    folder = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(folder, "expected_random.h"), "w", encoding="ascii") as out:
        write(out)


if __name__ == "__main__":
    main()
