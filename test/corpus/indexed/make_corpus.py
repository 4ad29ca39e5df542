#!/usr/bin/env python3
"""Makes the hostile token data sets next to this script, and the list of the expected messages.

expected.txt: a line for each data set: name, tab, file at fault (idx or bin), tab, words of the
message. All differ in one point from the valid data set `good`: sequences of 3, 0 and 2 tokens of
uint16, two documents.
"""

import os
import struct

HERE = os.path.dirname(os.path.abspath(__file__))
MAGIC = b"MMIDIDX\0\0"
BIN = struct.pack("<5H", 10, 11, 12, 13, 14)


def idx(magic=MAGIC, version=1, code=8, sequences=None, entries=None, lengths=(3, 0, 2),
        offsets=(0, 6, 6), documents=(0, 1, 3), tail=b""):
    sequences = len(lengths) if sequences is None else sequences
    entries = len(documents) if entries is None else entries
    header = magic + struct.pack("<QBQQ", version, code, sequences, entries)
    return (header + struct.pack(f"<{len(lengths)}i", *lengths)
            + struct.pack(f"<{len(offsets)}q", *offsets)
            + struct.pack(f"<{len(documents)}q", *documents) + tail)


GOOD = idx()
CASES = {
    "empty_idx": (b"", BIN, "idx", "0 bytes long"),
    "header_cut": (GOOD[:33], BIN, "idx", "33 bytes long"),
    "bad_magic": (idx(magic=b"TNTIDX\0\0\0"), BIN, "idx", "MMIDIDX"),
    "text_as_idx": (b"Call me Ishmael. Some years ago - never mind how long", BIN, "idx",
                    "MMIDIDX"),
    "version_2": (idx(version=2), BIN, "idx", "version 2"),
    "version_huge": (idx(version=2**64 - 1), BIN, "idx", "version 18446744073709551615"),
    "big_endian_version": (idx(version=1 << 56), BIN, "idx", "version"),
    "code_0": (idx(code=0), BIN, "idx", "type code 0"),
    "code_9": (idx(code=9), BIN, "idx", "type code 9"),
    "code_255": (idx(code=255), BIN, "idx", "type code 255"),
    "code_float64": (idx(code=6), BIN, "idx", "type code 6"),
    "code_float32": (idx(code=7), BIN, "idx", "type code 7"),
    "code_int8": (idx(code=2), BIN, "idx", "type code 2"),
    "wrong_width": (idx(code=4), BIN, "bin", "sequence 0"),
    "sequences_one_more": (idx(sequences=4), BIN, "idx", "4 sequences"),
    "sequences_one_less": (idx(sequences=2), BIN, "idx", "2 sequences"),
    "sequences_all_bits": (idx(sequences=2**64 - 1), BIN, "idx", "18446744073709551615 sequences"),
    # 12 * 2^62 wraps to 0, so 2^62 + 3 sequences look like 3.
    "sequences_wrap": (idx(sequences=2**62 + 3), BIN, "idx", "4611686018427387907 sequences"),
    # 8 * 2^61 wraps to 0, so 2^61 + 3 entries look like 3.
    "entries_wrap": (idx(entries=2**61 + 3), BIN, "idx", "document entries"),
    "entries_0": (idx(documents=()), BIN, "idx", "empty document index"),
    "idx_cut": (GOOD[:-1], BIN, "idx", "does not match its size"),
    "idx_cut_by_an_entry": (GOOD[:-8], BIN, "idx", "does not match its size"),
    "idx_longer": (idx(tail=b"\0" * 5), BIN, "idx", "does not match its size"),
    "idx_multimodal": (idx(tail=b"\0" * 3), BIN, "idx", "does not match its size"),
    "length_negative": (idx(lengths=(3, -1, 3)), BIN, "idx", "sequence 1 has the length -1"),
    "length_minimum": (idx(lengths=(-2**31, 0, 2)), BIN, "idx", "sequence 0 has the length"),
    "length_maximum": (idx(lengths=(2**31 - 1, 0, 2)), BIN, "bin", "sequence 0"),
    "lengths_swapped": (idx(lengths=(2, 0, 3)), BIN, "idx", "sequence 1 starts at byte 6"),
    "offset_first": (idx(offsets=(2, 6, 6)), BIN, "idx", "sequence 0 starts at byte 2"),
    "offset_odd": (idx(offsets=(0, 6, 7)), BIN, "idx", "sequence 2 starts at byte 7"),
    "offset_negative": (idx(offsets=(0, -6, 6)), BIN, "idx", "sequence 1 starts at byte -6"),
    "offset_huge": (idx(offsets=(0, 6, 2**63 - 1)), BIN, "idx",
                    "sequence 2 starts at byte 9223372036854775807"),
    "offsets_swapped": (idx(offsets=(6, 0, 6)), BIN, "idx", "sequence 0 starts at byte 6"),
    "documents_first": (idx(documents=(1, 1, 3)), BIN, "idx",
                        "first document starts at sequence 1"),
    "documents_unsorted": (idx(documents=(0, 3, 1, 3)), BIN, "idx", "below the one before"),
    "documents_negative": (idx(documents=(0, -1, 3)), BIN, "idx", "below the one before"),
    "documents_short": (idx(documents=(0, 1, 2)), BIN, "idx", "end at sequence 2 of 3"),
    "documents_beyond": (idx(documents=(0, 1, 4)), BIN, "idx", "end at sequence 4 of 3"),
    "documents_huge": (idx(documents=(0, 2**63 - 1, 3)), BIN, "idx", "below the one before"),
    "bin_short": (GOOD, BIN[:-2], "bin", "8 bytes long"),
    "bin_short_by_a_byte": (GOOD, BIN[:-1], "bin", "9 bytes long"),
    "bin_long": (GOOD, BIN + b"\0\0", "bin", "12 bytes long"),
    "bin_empty": (GOOD, b"", "bin", "0 bytes long"),
    "bin_missing": (GOOD, None, "bin", "no such file"),
    "idx_missing": (None, BIN, "idx", "no such file"),
}


def write(name, content):
    if content is None:
        return
    with open(os.path.join(HERE, name), "wb") as file:
        file.write(content)


def main():
    lines = []
    for name, (index, tokens, fault, words) in CASES.items():
        write(name + ".idx", index)
        write(name + ".bin", tokens)
        lines.append(f"{name}\t{fault}\t{words}\n")
    write("good.idx", GOOD)
    write("good.bin", BIN)
    write("expected.txt", "".join(lines).encode())


if __name__ == "__main__":
    main()
