#!/usr/bin/env python3
"""Writes ../corpus/lossmask: a loss mask and hostile variants of it, with a separate CRC-32C.

good.mask is of 19 tokens, of which 3, 4, 8 and 18 are learned. The other names say what is wrong.
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
    print("good.mask:", good.hex(), "CRC-32C", struct.unpack_from("<I", good, 12)[0])


main()
