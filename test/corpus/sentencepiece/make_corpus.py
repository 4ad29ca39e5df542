#!/usr/bin/env python3
"""Makes the hostile sentencepiece models of this folder, and good.model, from which each differs in
one fault. The protocol buffers are written by hand, so that they can be as wrong as needed."""
import os
import struct

FOLDER = os.path.dirname(os.path.abspath(__file__))
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6


def varint(value):
    value &= (1 << 64) - 1
    out = b""
    while value >= 0x80:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def number(field, value):
    return varint(field << 3) + varint(value)


def chunk(field, value):
    return varint(field << 3 | 2) + varint(len(value)) + value


def piece(text, score=0.0, kind=NORMAL):
    text = text.encode() if isinstance(text, str) else text
    return chunk(1, chunk(1, text) + varint(2 << 3 | 5) + struct.pack("<f", score) + number(3, kind))


SPECIAL = piece("<unk>", kind=UNKNOWN) + piece("<s>", kind=CONTROL) + piece("</s>", kind=CONTROL)
BYTE_PIECES = [piece(f"<0x{byte:02X}>", kind=BYTE) for byte in range(256)]
BYTES = b"".join(BYTE_PIECES)
LETTERS = b"".join(piece(letter, -1.0 - i) for i, letter in enumerate("etaoinshr")) + piece("he", -0.5)
TRAINER = number(3, 1) + number(35, 1) + number(40, 0) + number(41, 1) + number(42, 2)
NORMALIZER = chunk(1, b"identity") + number(3, 0) + number(4, 0) + number(5, 0)


def model(pieces=SPECIAL + BYTES + LETTERS, trainer=TRAINER, normalizer=NORMALIZER, more=b""):
    return pieces + chunk(2, trainer) + chunk(3, normalizer) + more


def table(units, texts=b"x\0"):
    """A normaliser's table: the units of its double array and the texts."""
    trie = b"".join(struct.pack("<I", unit) for unit in units)
    return struct.pack("<I", len(trie)) + trie + texts


INVALID = 0x800000FF


def unit(label, offset, leaf=False):
    return label | offset << 10 | leaf << 8


def trie(edges, size=512, root_offset=256):
    """Units that match nothing, except for `edges`: position -> unit."""
    units = [INVALID] * size
    units[0] = unit(0, root_offset)
    for position, value in edges.items():
        units[position] = value
    return units


def chain(length):
    """Keys a, aa, aaa, ...: `length` of them, each in its own block of 256 units."""
    edges = {}
    for i in range(length):
        base = 256 * (i + 1)
        edges[base ^ 97] = unit(97, (base ^ 97) ^ 256 * (i + 2), True)
        edges[256 * (i + 2)] = 0x80000000
    return trie(edges, 256 * (length + 2))


def with_table(blob):
    return model(normalizer=NORMALIZER + chunk(2, blob))


GOOD_TABLE = table(trie({256 ^ 97: unit(97, (256 ^ 97) ^ 512, True), 512: 0x80000000}, 768))

FILES = {
    "good": model(),
    "good_charsmap": with_table(GOOD_TABLE),
    "good_charsmap_32_prefixes": with_table(table(chain(32))),
    "empty_file": b"",
    "text_file": b"Call me Ishmael. Some years ago - never mind how long precisely...\n",
    "gzip_file": b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\x4b\x04\x00\x43\xbe\xb7\xe8\x01\x00\x00\x00",
    "no_pieces": model(pieces=b""),
    "cut_in_piece": model()[:1000],
    "cut_in_tag": model() + b"\xff",
    "huge_length": model() + b"\x0a\xff\xff\xff\xff\x7f",
    "length_wraps": model() + b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    "long_varint": model() + b"\x28" + b"\xff" * 10 + b"\x01",
    "field_zero": model() + b"\x00\x01",
    "groups": model() + b"\x33" * 1000,
    "piece_as_number": number(1, 7) + model(),
    "piece_empty": model(SPECIAL + BYTES + LETTERS + piece("")),
    "piece_without_text": model(SPECIAL + BYTES + LETTERS + chunk(1, number(3, 1))),
    "piece_long": model(SPECIAL + BYTES + LETTERS + piece("a" * 5000)),
    "piece_nul": model(SPECIAL + BYTES + LETTERS + piece("a\0b")),
    "piece_not_utf8": model(SPECIAL + BYTES + LETTERS + piece(b"a\xff")),
    "piece_twice": model(SPECIAL + BYTES + LETTERS + piece("he")),
    "piece_twice_two_types": model(SPECIAL + BYTES + LETTERS + piece("<s>")),
    "score_nan": model(SPECIAL + BYTES + LETTERS + piece("ha", float("nan"))),
    "score_infinite": model(SPECIAL + BYTES + LETTERS + piece("ha", float("-inf"))),
    "piece_type_9": model(SPECIAL + BYTES + LETTERS + piece("ha", kind=9)),
    "no_unknown": model(BYTES + LETTERS),
    "two_unknown": model(SPECIAL + BYTES + LETTERS + piece("<unk2>", kind=UNKNOWN)),
    "bytes_incomplete": model(SPECIAL + b"".join(BYTE_PIECES[:-1]) + LETTERS),
    "bytes_without_fallback": model(trainer=number(3, 1)),
    "byte_bad_name": model(SPECIAL + BYTES + LETTERS + piece("<0xZZ>", kind=BYTE)),
    "only_special": model(SPECIAL, trainer=number(3, 1)),
    "model_type_7": model(trainer=TRAINER + number(3, 7)),
    "eos_outside": model(trainer=TRAINER + number(42, 100000)),
    "eos_negative": model(trainer=TRAINER + number(42, -5)),
    "trainer_twice": model(more=chunk(2, TRAINER)),
    "denormalizer": model(more=chunk(5, chunk(2, GOOD_TABLE))),
    "user_defined_65_prefixes": model(
        SPECIAL + BYTES + b"".join(piece("q" * n, kind=USER_DEFINED) for n in range(1, 66))),
    "charsmap_short": with_table(b"\x01\x02"),
    "charsmap_trie_too_large": with_table(struct.pack("<I", 1 << 30) + b"abcd\0"),
    "charsmap_trie_odd": with_table(struct.pack("<I", 6) + b"abcdefgh\0"),
    "charsmap_trie_empty": with_table(struct.pack("<I", 0) + b"x\0"),
    "charsmap_root_outside": with_table(table(trie({}, 256, 1 << 20))),
    "charsmap_block_cut": with_table(table(trie({}, 300, 256))),
    "charsmap_child_outside": with_table(table(trie({256 ^ 97: unit(97, 1 << 20, True)}))),
    "charsmap_loop": with_table(table(trie({256 ^ 97: unit(97, 97)}))),
    "charsmap_33_prefixes": with_table(table(chain(33))),
    "charsmap_value_outside": with_table(
        table(trie({256 ^ 97: unit(97, (256 ^ 97) ^ 512, True), 512: 0x80FFFFFF}, 768))),
    "charsmap_value_inside_text": with_table(
        table(trie({256 ^ 97: unit(97, (256 ^ 97) ^ 512, True), 512: 0x80000001}, 768), b"xyz\0")),
    "charsmap_text_without_end": with_table(table(trie({}), b"xyz")),
    "charsmap_text_not_utf8": with_table(table(trie({}), b"\xc3\0")),
    "charsmap_text_long": with_table(table(trie({}), b"x" * 300 + b"\0")),
}

if __name__ == "__main__":
    for name, contents in FILES.items():
        with open(os.path.join(FOLDER, name + ".model"), "wb") as file:
            file.write(contents)
