#!/usr/bin/env python3
"""Writes lib/unicode/unicode_tables.h: what the tokenizers know of Unicode.

    pip install unicodedata2==16.0.0
    scripts/unicode_tables.py > lib/unicode/unicode_tables.h

The versions are those of the package `tokenizers` (0.23), so that ids are equal: categories of
Unicode 16.0 (its regular expressions), normalization of Unicode 9.0. Cases are those of this Python
(3.11: Unicode 14.0). The normalization of a
character never changes once it has one, so that of 9.0 is that of 16.0 without the characters that
were added since; perl knows those.
"""

import subprocess
import sys

import unicodedata2 as ucd

if ucd.unidata_version != "16.0.0":
    sys.exit("unicode_tables.py: needs unicodedata2==16.0.0, not " + ucd.unidata_version)

CHARACTERS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
SPACES = [*range(0x09, 0x0E), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029,
          0x202F, 0x205F, 0x3000]  # the property White_Space

# The script Han, which unicodedata2 does not know (Scripts.txt).
HAN = [(0x2E80, 0x2E99), (0x2E9B, 0x2EF3), (0x2F00, 0x2FD5), (0x3005, 0x3005), (0x3007, 0x3007),
       (0x3021, 0x3029), (0x3038, 0x303B), (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFA6D),
       (0xFA70, 0xFAD9), (0x16FE2, 0x16FE3), (0x16FF0, 0x16FF1), (0x20000, 0x2A6DF),
       (0x2A700, 0x2B739), (0x2B740, 0x2B81D), (0x2B820, 0x2CEA1), (0x2CEB0, 0x2EBE0),
       (0x2EBF0, 0x2EE5D), (0x2F800, 0x2FA1D), (0x30000, 0x3134A), (0x31350, 0x323AF)]


# First and last capital, and the distance of its small letter: those of Unicode 16.0 and 17.0, which
# this Python does not have.
NEWER_LOWER = [(0x1C89, 0x1C89, 1), (0xA7CB, 0xA7CB, -42343), (0xA7CC, 0xA7CC, 1), (0xA7CE, 0xA7CE, 1),
               (0xA7D2, 0xA7D2, 1), (0xA7D4, 0xA7D4, 1), (0xA7DA, 0xA7DA, 1), (0xA7DC, 0xA7DC,
               -42561), (0x10D50, 0x10D65, 32), (0x16EA0, 0x16EB8, 27)]


def characters_of(version):
    """The characters that were assigned in a version of Unicode."""
    program = (r'for (0 .. 0x10FFFF) { next if $_ >= 0xD800 && $_ < 0xE000;'
               r' print "$_\n" if chr($_) =~ /\p{Present_In=%s}/ }' % version)
    run = subprocess.run(["perl", "-e", program], capture_output=True, text=True, check=True)
    return {int(line) for line in run.stdout.split()}


def ranges(values):
    """[first, last, value] for each run of characters with an equal value."""
    runs = []
    for character, value in values:
        if runs and runs[-1][1] == character - 1 and runs[-1][2] == value:
            runs[-1][1] = character
        else:
            runs.append([character, character, value])
    return runs


def table(comment, declaration, rows):
    print(f"\n/// {comment}\n// clang-format off\nconstexpr {declaration}[] = {{")
    line = "   "
    for row in rows:
        if len(line) + len(row) + 2 > 100:
            print(line)
            line = "   "
        line += f" {row},"
    print(line + "\n};\n// clang-format on")


def rows_of(characters):
    return [f"{{0x{a:X}, 0x{b:X}}}" for a, b, _ in ranges((c, None) for c in characters)]


def category_rows(*categories):
    """The characters of general categories, such as Lu, or of all that begin with a letter."""
    return rows_of(c for c in CHARACTERS if ucd.category(chr(c)).startswith(categories))


def word_rows():
    r"""\w of Unicode's annex on regular expressions without letters and marks: decimal and letter
    numbers, connectors, the two joiners, and the letters in circles and squares."""
    circled = {*range(0x24B6, 0x24EA), *range(0x1F130, 0x1F14A), *range(0x1F150, 0x1F16A),
               *range(0x1F170, 0x1F18A)}
    return rows_of(c for c in CHARACTERS if c in circled or c in (0x200C, 0x200D) or
                   ucd.category(chr(c)) in ("Nd", "Nl", "Pc"))


def old_rows(*categories, but=()):
    """The characters of categories that Unicode 8.0 had, whose other category was `but`."""
    known = characters_of("8.0")
    return rows_of(c for c in CHARACTERS if (c in known and c not in but and
                                             ucd.category(chr(c)).startswith(categories)) or
                   (c in but and not ucd.category(chr(c)).startswith(categories)))


def decompositions():
    """[character, first, second or 0, composes] of one step of canonical decomposition."""
    known = characters_of("9.0")
    for character in CHARACTERS:
        parts = ucd.decomposition(chr(character)).split()
        if character not in known or not parts or parts[0].startswith("<"):
            continue
        first, second = [int(part, 16) for part in parts + ["0"]][:2]
        yield character, first, second, ucd.normalize("NFC", chr(character)) == chr(character)


def case_runs(convert, refuse):
    """[first, last, step, delta] of the characters with another case, delta 0 where that is not one
    character that depends on nothing else."""
    runs = []
    for c in CHARACTERS:
        changed = convert(chr(c))
        if changed == chr(c) and not refuse(chr(c)):
            continue
        delta = 0 if refuse(chr(c)) or len(changed) > 1 else ord(changed) - c
        if runs and runs[-1][3] == delta and c - runs[-1][1] in (1, 2) and (
                runs[-1][2] in (0, c - runs[-1][1])):
            runs[-1][2] = c - runs[-1][1]
            runs[-1][1] = c
        else:
            runs.append([c, c, 0, delta])
    return [f"{{0x{a:X}, 0x{b:X}, {step or 1}, {delta}}}" for a, b, step, delta in runs]


def main():
    known = characters_of("9.0")
    print("// Generated by scripts/unicode_tables.py from Unicode 16.0 (categories) and 9.0"
          " (normalization).\n// Only unicode.cpp includes it.\n#pragma once\n")
    print("namespace gptrain {\n")
    print("struct CharRange {\n    char32_t first, last;\n};\n")
    print("struct CombiningRange {\n    char32_t first, last;\n    int combining_class;\n};\n")
    print("struct Decomposition {\n    char32_t character, first;\n"
          "    char32_t second = 0;  // 0 if there is one part\n};")
    print("\nstruct CaseRange {\n    char32_t first, last, step;\n"
          "    int delta;  // to the other letter; 0: it is not one character\n};")
    table("Capital and title-case letters (Lu, Lt).", "CharRange capitals",
          category_rows("Lu", "Lt"))
    table("Small letters (Ll).", "CharRange smalls", category_rows("Ll"))
    table("Letters without case (Lm, Lo).", "CharRange caseless", category_rows("Lm", "Lo"))
    table("Marks (M).", "CharRange marks", category_rows("M"))
    table("Numbers (N).", "CharRange numbers", category_rows("N"))
    table("Punctuation (P).", "CharRange punctuation", category_rows("P"))
    table("Symbols (S).", "CharRange symbols", category_rows("S"))
    table("White space.", "CharRange spaces", rows_of(SPACES))
    table("Characters of words besides letters and marks.", "CharRange word_others", word_rows())
    table("Numbers that are letters (Nl).", "CharRange letter_numbers", category_rows("Nl"))
    table("The script Han.", "CharRange han", [f"{{0x{a:X}, 0x{b:X}}}" for a, b in HAN])
    table("Control, format and private characters (Cc, Cf, Co) of Unicode 8.0.",
          "CharRange old_controls", old_rows("Cc", "Cf", "Co"))
    table("Nonspacing marks (Mn) of Unicode 8.0.", "CharRange old_marks",
          old_rows("Mn", but=(0x1734, 0x1171E, 0x1885, 0x1886, 0xA9BD, 0x111C9)))
    table("Punctuation (P) of Unicode 8.0.", "CharRange old_punctuation",
          old_rows("P", but=(0x166D, 0x111C9)))
    table("Letters with a small letter only since Unicode 15.", "CaseRange newer_lower_ranges",
          [f"{{0x{a:X}, 0x{b:X}, 1, {delta}}}" for a, b, delta in NEWER_LOWER])
    classes = [(c, ucd.combining(chr(c))) for c in CHARACTERS
               if c in known and ucd.combining(chr(c))]
    table("Canonical combining classes that are not 0.", "CombiningRange combining_ranges",
          [f"{{0x{a:X}, 0x{b:X}, {value}}}" for a, b, value in ranges(classes)])
    for composes, comment, name in (
            (True, "Pairs that decompose and compose.", "composites"),
            (False, "Characters that decompose and never compose.", "decomposed_only")):
        table(comment, "Decomposition " + name,
              [f"{{0x{c:X}, 0x{a:X}" + (f", 0x{b:X}}}" if b else "}")
               for c, a, b, yes in decompositions() if yes == composes])
    table("Letters with a small letter. A capital sigma's depends on what follows.",
          "CaseRange lower_ranges", case_runs(str.lower, lambda c: c == "\u03A3"))
    table("Letters with a capital. The delta is 0, too, where the title case is another letter.",
          "CaseRange upper_ranges", case_runs(str.upper, lambda c: c.upper() != c.title()))
    print("\n}  // namespace gptrain")


if __name__ == "__main__":
    main()
