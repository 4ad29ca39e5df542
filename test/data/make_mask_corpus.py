#!/usr/bin/env python3
"""Writes ../corpus/lossmask: a loss mask, weights, and hostile variants of them, with a separate
CRC-32C.

good.mask is of 19 tokens, of which 3, 4, 8 and 18 are learned. good.weights is of 1,000 tokens, all
learned but every seventh (fuzz/lossmask.cpp). The other names say what is wrong.
"""
import pathlib
import struct

FOLDER = pathlib.Path(__file__).parent / "../corpus/lossmask"


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def mask(tokens=19, learned=4, bits=b"\x18\x01\x04", magic=b"GPTMASK\0", version=1, crc=None):
    counted = struct.pack("<QQ", tokens, learned) + bits
    return magic + struct.pack("<II", version, crc32c(counted) if crc is None else crc) + counted


def weights(runs=((1, 2, 0.5), (3, 4, 0.25), (995, 5, 0.75)), tokens=1000, count=None,
            magic=b"GPTWGHT\0", version=1, crc=None):
    counted = struct.pack("<QQ", tokens, len(runs) if count is None else count)
    counted += b"".join(struct.pack("<QIf", *run) for run in runs)
    return magic + struct.pack("<II", version, crc32c(counted) if crc is None else crc) + counted


def write_weights():
    good = weights()
    flipped = bytearray(good)
    flipped[44] ^= 0x10
    files = {
        "good": good,
        "no_runs": weights(runs=()),
        "header_cut": good[:31],
        "run_cut": good[:-1],
        "run_long": good + b"\0" * 16,
        "magic": weights(magic=b"GPTWGHT\1"),
        "version_2": weights(version=2),
        "bit_flipped": bytes(flipped),
        "crc_zero": weights(crc=0),
        "count_huge": weights(count=2**64 - 1),
        "other_tokens": weights(tokens=999),
        "tokens_huge": weights(tokens=2**64 - 1),
        "run_empty": weights(runs=((1, 0, 0.5),)),
        "run_overlaps": weights(runs=((1, 3, 0.5), (3, 1, 0.25))),
        "run_backwards": weights(runs=((9, 2, 0.5), (1, 1, 0.25))),
        "run_behind": weights(runs=((995, 6, 0.5),)),
        "run_huge": weights(runs=((2**64 - 1, 2, 0.5),)),
        "run_2_63": weights(runs=((2**63, 2, 0.5),)),
        "run_unlearned": weights(runs=((6, 2, 0.5),)),
        "weight_0": weights(runs=((1, 1, 0.0),)),
        "weight_1": weights(runs=((1, 1, 1.0),)),
        "weight_negative": weights(runs=((1, 1, -0.5),)),
        "weight_nan": weights(runs=((1, 1, float("nan")),)),
        "weight_infinite": weights(runs=((1, 1, float("inf")),)),
    }
    for name, content in files.items():
        (FOLDER / f"{name}.weights").write_bytes(content)


def main():
    assert crc32c(b"123456789") == 0xE3069283
    good = mask()
    flipped = bytearray(good)
    flipped[33] ^= 0x10
    files = {
        "good": good,
        "empty_mask": mask(tokens=0, learned=0, bits=b""),
        "nothing_learned": mask(learned=0, bits=b"\0\0\0"),
        "empty": b"",
        "header_cut": good[:31],
        "bits_cut": good[:-1],
        "bits_long": good + b"\0",
        "magic": mask(magic=b"GPTMASK\1"),
        "big_endian_version": mask(version=1 << 24),
        "version_2": mask(version=2),
        "bit_flipped": bytes(flipped),
        "crc_zero": mask(crc=0),
        "learned_more": mask(learned=5),
        "learned_above_tokens": mask(learned=20),
        "learned_huge": mask(learned=2**64 - 1),
        "tokens_more": mask(tokens=25),
        "tokens_huge": mask(tokens=2**64 - 1),
        "tokens_2_63": mask(tokens=2**63),
        "padding_set": mask(learned=5, bits=b"\x18\x01\x0c"),
        "other_file": b"MMIDIDX\0\0" + b"\0" * 40,
    }
    FOLDER.mkdir(exist_ok=True)
    for name, content in files.items():
        (FOLDER / f"{name}.mask").write_bytes(content)
    write_weights()
    print("good.mask:", good.hex(), "CRC-32C", struct.unpack_from("<I", good, 12)[0])


main()
