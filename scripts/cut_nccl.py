"""Copies a libnccl.so.2 (2.30 or newer) with the device code of one GPU architecture alone.

    python3 scripts/cut_nccl.py FILE ARCHITECTURE OUTPUT

ARCHITECTURE is 80, 90, 100, ...; a letter after it does not count. The code lies in sections of fat
binaries, each a header and an entry for each architecture. The entries of others are cut out, and
what they leave at the end of a fat binary becomes zeros; a fat binary that has none for this
architecture (few and small) stays as it is. Nothing else moves, so the file loads as before. It is as
large as before, but an archive of it is not. A file that is not laid out like that is refused.
"""

import re
import struct
import sys

OLDEST = (2, 30)
SECTIONS = {".nv_fatbin", "__nv_relfatbin"}
FAT_BINARY = struct.Struct("<IHHQ")  # magic, version, bytes of this header, bytes after it
FAT_BINARY_MAGIC = 0xBA55ED50
ENTRY = struct.Struct("<HHIQ12xI")  # kind, version, bytes of this header, bytes after it, architecture
MACHINE_CODE = 2  # the kind; PTX is another


def fail(*words):
    sys.exit("error: " + " ".join(str(word) for word in words))


def sections(elf):
    """Name, offset and size of each section of a 64-bit little-endian ELF file."""
    if elf[:6] != b"\x7fELF\x02\x01":
        fail("not a library for a 64-bit machine")
    (table,) = struct.unpack_from("<Q", elf, 40)
    size, count, names = struct.unpack_from("<HHH", elf, 58)
    headers = [struct.unpack_from("<II16xQQ", elf, table + i * size) for i in range(count)]
    for name, _, offset, length in headers:
        start = headers[names][2] + name
        yield elf[start : elf.index(b"\0", start)].decode(), offset, length


def entries(elf, begin, end):
    """Architecture (0: no machine code), begin and end of each entry of a fat binary."""
    while begin < end:
        kind, _, header, length, architecture = ENTRY.unpack_from(elf, begin)
        after = begin + header + length
        if header < ENTRY.size or after > end:
            fail("a fat binary with an entry of another layout")
        yield architecture if kind == MACHINE_CODE else 0, begin, after
        begin = after


def cut(elf, begin, end, wanted, found):
    """Cuts the fat binaries of a section; adds up bytes by architecture in `found`."""
    while begin + FAT_BINARY.size <= end:
        magic, version, header, length = FAT_BINARY.unpack_from(elf, begin)
        if magic == 0:  # between fat binaries, whose addresses are multiples of 8
            begin += 8
            continue
        after = begin + header + length
        if magic != FAT_BINARY_MAGIC or after > end:
            fail("a section of another layout")
        kept = b""
        for architecture, first, last in entries(elf, begin + header, after):
            found[architecture] = found.get(architecture, 0) + last - first
            if architecture == wanted:
                kept += elf[first:last]
        if kept:
            FAT_BINARY.pack_into(elf, begin, magic, version, header, len(kept))
            elf[begin + header : after] = kept.ljust(after - begin - header, b"\0")
        begin = after


def main():
    if len(sys.argv) != 4:
        fail("usage: cut_nccl.py FILE ARCHITECTURE OUTPUT")
    source, word, output = sys.argv[1:]
    wanted = int(word.rstrip("af"))
    with open(source, "rb") as file:
        elf = bytearray(file.read())
    version = re.search(rb"NCCL version (\d+)\.(\d+)[.\w]*\+cuda[.\d]+", elf)
    if not version:
        fail(source, "is no NCCL")
    if (int(version[1]), int(version[2])) < OLDEST:
        fail(f"{source}: {version[0].decode()}: ranks share a GPU from 2.30 on")
    found = {}
    for name, offset, length in sections(elf):
        if name in SECTIONS:
            cut(elf, offset, offset + length, wanted, found)
    if wanted not in found:
        known = ", ".join(f"sm_{architecture}" for architecture in sorted(found) if architecture)
        fail(f"{source} has no code for sm_{wanted}: {known or 'none at all'}")
    with open(output, "wb") as file:
        file.write(elf)
    print(f"{version[0].decode()}, sm_{wanted}: {found[wanted]} of {sum(found.values())} bytes of code")


main()
