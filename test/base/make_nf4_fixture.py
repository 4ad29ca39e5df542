#!/usr/bin/env python3
"""Writes expected_nf4.h: matrices in NF4 by the formulas of bitsandbytes, in numpy.

Usage: make_nf4_fixture.py [--peer] > expected_nf4.h
--peer compares codes, scales and nested scales with those of the package bitsandbytes, too.
"""
import sys

import numpy as np

VALUES = np.array(
    [-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453,
     -0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0.0,
     0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
     0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0], np.float32)
BOUNDS = np.array(
    [-0.8480964004993439, -0.6106329262256622, -0.4599952697753906, -0.33967943489551544,
     -0.23460740596055984, -0.13791173323988914, -0.045525018125772476, 0.03979014977812767,
     0.1202552504837513, 0.2035212516784668, 0.2920137718319893, 0.3893125355243683,
     0.5016634166240692, 0.6427869200706482, 0.8614784178118011], np.float32)


def linspace(count):
    """torch.linspace(0.1, 1, count + 1) in fp32: one rounding of each point."""
    begin, end = np.float32(0.1), np.float32(1)
    step = np.float64((end - begin) / np.float32(count))
    return np.array([np.float64(begin) + step * i if i < (count + 1) // 2
                     else np.float64(end) - step * (count - i)
                     for i in range(count + 1)]).astype(np.float32)


def dynamic_map():
    values = [np.float32(0), np.float32(1)]
    for i in range(7):
        ends = linspace(2 ** i)
        middles = (ends[:-1] + ends[1:]) / np.float32(2)
        positive = np.float32(10.0 ** (i - 6)) * middles
        values += list(positive) + list(-positive)
    return np.sort(np.array(values, np.float32))


def blocks_of(x, size):
    return [x[i:i + size] for i in range(0, len(x), size)]


def largest(blocks):
    return np.array([np.abs(block).max() for block in blocks], np.float32)


def shares(blocks, scales):
    return np.concatenate([block / scale if scale > 0 else np.zeros_like(block)
                           for block, scale in zip(blocks, scales)])


def quantise(x):
    blocks = blocks_of(x, 64)
    scales = largest(blocks)
    codes = (shares(blocks, scales)[:, None] > BOUNDS[None, :]).sum(1).astype(np.uint8)
    return codes[0::2] << 4 | codes[1::2], scales


def nest(scales, offset=None):
    if offset is None:
        offset = np.float32(scales.astype(np.float64).mean())
    rest = scales - offset
    blocks = blocks_of(rest, 256)
    factors = largest(blocks)
    table = dynamic_map()
    middles = (table[:-1] + table[1:]) * np.float32(0.5)
    codes = (shares(blocks, factors)[:, None] > middles[None, :]).sum(1).astype(np.uint8)
    return codes, np.concatenate([[offset], factors]).astype(np.float32)


def matrix(elements):
    """Exact in fp32. Blocks of very different size, some of them zero."""
    i = np.arange(elements, dtype=np.int64)
    whole = (i * 7919 + i * i % 1013 * 31 + 11) % 2003 - 1001
    block = i // 64
    size = np.where(block % 7 == 5, 0.0, 2.0 ** -(block * 5 % 9))
    return (whole / 1024 * size).astype(np.float32)


def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff


def compare_with_peer():
    import torch
    from bitsandbytes import functional as peer
    assert (peer.create_dynamic_map().numpy() == dynamic_map()).all()
    generator = torch.Generator().manual_seed(5)
    inputs = [torch.from_numpy(matrix(64 * 600)).reshape(600, 64)]
    inputs += [torch.randn(shape, generator=generator) * 0.02
               for shape in ((96, 96), (1024, 512), (33, 320))]
    for x in inputs:
        codes, scales = quantise(x.numpy().reshape(-1))
        theirs, state = peer.quantize_4bit(x, quant_type="nf4")
        assert (theirs.numpy().reshape(-1) == codes).all(), "codes"
        assert (state.absmax.numpy() == scales).all(), "scales"
        theirs, state = peer.quantize_4bit(x, quant_type="nf4", compress_statistics=True)
        assert (theirs.numpy().reshape(-1) == codes).all(), "codes"
        # torch adds the terms of the mean in fp32. The package's kernel for CPUs takes the other
        # code for some scales that are almost in the middle of two.
        offset = state.offset.numpy()
        nested, factors = nest(scales, offset)
        assert (state.state2.absmax.numpy() == factors[1:]).all(), "factors"
        ours = nest(scales)[1][0]
        assert abs(offset - ours) <= 1e-6 * abs(offset), (offset, ours)
        apart = np.abs(state.absmax.numpy().astype(int) - nested.astype(int))
        assert apart.max() <= 1 and apart.sum() <= 0.01 * len(scales), "nested scales"
        print(f"{list(x.shape)}: equal, but for {apart.sum()} of {len(scales)} nested codes; "
              f"mean {offset!r}, in fp64 {ours!r}", file=sys.stderr)


def array(name, kind, values):
    rows, line = [], "   "
    for value in values:
        if len(line) + len(value) + 2 > 99:
            rows.append(line)
            line = "   "
        line += f" {value},"
    rows.append(line)
    return f"constexpr {kind} {name}[] = {{\n" + "\n".join(rows) + "\n};\n"


def floats(values):
    return [f"{float(value)!r}F" for value in values]


def main():
    if "--peer" in sys.argv[1:]:
        compare_with_peer()
    print("// Written by make_nf4_fixture.py.\n#pragma once\n\n#include <cstdint>\n\n"
          "namespace gptrain::test {\n\n// clang-format off")
    codes, scales = quantise(matrix(192))
    nested, factors = nest(scales)
    print(array("nf4_codes", "std::uint8_t", [str(code) for code in codes]))
    print(array("nf4_scales", "float", floats(scales)))
    print(array("nf4_nested_codes", "std::uint8_t", [str(code) for code in nested]))
    print(array("nf4_factors", "float", floats(factors)))
    print("/// CRC-32C of the bytes of the same for a matrix of that many elements.")
    elements = 64 * 600 + 6
    codes, scales = quantise(matrix(elements))
    nested, factors = nest(scales)
    print(f"constexpr std::int64_t nf4_large = {elements};")
    for name, values in (("codes", codes), ("scales", scales), ("nested_codes", nested),
                         ("factors", factors), ("map", dynamic_map())):
        print(f"constexpr std::uint32_t nf4_large_{name}_crc = {crc32c(values.tobytes()):#010x};")
    print("// clang-format on\n\n}  // namespace gptrain::test")


if __name__ == "__main__":
    main()
