#!/usr/bin/env python3
"""Makes expected_moments.h: AdamW with 8-bit moments, computed apart from gptrain.

Run:   make_moments_fixture.py          writes the header next to this script.

Needs Python alone. The codes are those of bitsandbytes: its dynamic maps (the midpoints of equal parts
of [0.1, 1], by decades), the nearest of their 256 values by search, a scale for each 256 elements,
moments with signs in the first and without in the second, and an update from the moments before they
are rounded. The one difference is gptrain's rule that what is not 0 does not become 0; bitsandbytes
has it for negative averages only. Decay and the terms of the update are in the order of
lib/backend/step_ops.h. All arithmetic is rounded to fp32 here. Nothing is shared with gptrain's code.
"""

import bisect
import fractions
import os
import struct

BLOCK = 256
COUNT = 300  # a whole block and a part of one
STEPS = 3
LR, BETA1, BETA2, EPS, DECAY, FACTOR = 0.013, 0.87, 0.96, 1e-6, 0.2, 0.375


def f32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def fma(a, b, c):
    """a b + c, rounded once: the exact sum is rounded to 53 bits, then to 24."""
    exact = fractions.Fraction(a) * fractions.Fraction(b) + fractions.Fraction(c)
    return f32(float(exact))


def root(x):
    return f32(x**0.5)


def dynamic_map(signed):
    """create_dynamic_map(signed, max_exponent_bits=7, total_bits=8)."""
    values = []
    for i in range(7):
        parts = 2**i if signed else 2 ** (i + 1)
        bounds = [0.1 + 0.9 * k / parts for k in range(parts + 1)]
        means = [(low + high) / 2 for low, high in zip(bounds, bounds[1:])]
        for mean in means:
            values.append(f32(10 ** (i - 6) * mean))
            if signed:
                values.append(-values[-1])
    return sorted(values + [0.0, 1.0])


def nearest(values, x):
    if x == 0:
        return values.index(0.0)
    at = bisect.bisect_left(values, x)
    near = [i for i in (at - 1, at) if 0 <= i < 256 and values[i] != 0 and (values[i] > 0) == (x > 0)]
    return min(near, key=lambda i: abs(fractions.Fraction(values[i]) - fractions.Fraction(x)))


class Moment:
    def __init__(self, signed):
        self.map = dynamic_map(signed)
        self.codes = [0] * COUNT
        self.scales = [0.0] * ((COUNT + BLOCK - 1) // BLOCK)

    def values(self):
        return [f32(self.map[code] * self.scales[i // BLOCK]) for i, code in enumerate(self.codes)]

    def store(self, values):
        for block in range(len(self.scales)):
            part = values[block * BLOCK : (block + 1) * BLOCK]
            self.scales[block] = scale = max(map(abs, part))
            for i, x in enumerate(part):
                self.codes[block * BLOCK + i] = nearest(self.map, f32(x / scale))


def grad(i, step):
    """Exact in fp32, over five orders of magnitude; some are 0."""
    return ((i * 7919 + step * 104729) % 2003 - 1001) / 2 ** (10 + 4 * (i % 5)) * (i % 7 > 0)


def step(params, averages, squares, number):
    """One update. Two roundings of double precision lie between these constants and the formula."""
    rate = f32(LR / (1 - BETA1**number))
    correction = f32((1 - BETA2**number) ** 0.5)
    decay = f32(1 - LR * DECAY)
    m, v = averages.values(), squares.values()
    for i in range(COUNT):
        g = f32(grad(i, number) * FACTOR)
        m[i] = fma(f32(BETA1), m[i], f32(f32(1 - BETA1) * g))
        v[i] = fma(f32(BETA2), v[i], f32(f32(f32(1 - BETA2) * g) * g))
        scaled = f32(f32(root(v[i]) / correction) + f32(EPS))
        params[i] = f32(f32(params[i] * decay) - f32(f32(rate * m[i]) / scaled))
    averages.store(m)
    squares.store(v)


def words(values):
    return ", ".join("0x" + struct.pack(">f", x).hex() for x in values)


def codes(values):
    return bytes(values).hex()


def main():
    params = [(i % 101 - 50) / 64 for i in range(COUNT)]
    averages, squares = Moment(True), Moment(False)
    for number in range(1, STEPS + 1):
        step(params, averages, squares, number)
    text = f"""// AdamW with 8-bit moments, computed apart from gptrain by make_moments_fixture.py, which wrote
// this file.
#pragma once

#include <cstdint>
#include <string_view>

// clang-format off
namespace gptrain::expected {{

constexpr std::int64_t moment_count = {COUNT};
constexpr std::int64_t moment_steps = {STEPS};
constexpr std::string_view averages = "{codes(averages.codes)}";
constexpr std::string_view squares = "{codes(squares.codes)}";
constexpr std::uint32_t average_scales[] = {{{words(averages.scales)}}};
constexpr std::uint32_t square_scales[] = {{{words(squares.scales)}}};
constexpr std::uint32_t params[] = {{{words(params)}}};

}}  // namespace gptrain::expected
"""
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "expected_moments.h"), "w") as out:
        out.write(text)


if __name__ == "__main__":
    main()
