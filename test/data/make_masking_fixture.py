#!/usr/bin/env python3
"""Makes expected_masking.h: tokens masked apart from gptrain.

Run:   make_masking_fixture.py          writes the header next to this script.

Needs Python alone. Philox is that of ../ops/make_random_fixture.py; the rules follow
lib/data/token_masking.h, in Python's own whole numbers and fractions. Nothing is shared with
gptrain's code.
"""

import math
import pathlib
import sys
from fractions import Fraction

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "ops"))

from make_random_fixture import philox, stream  # noqa: E402

TOKEN = dict(mask_rate=0.15, masking="token", mask_id=100, mask_share=0.8, random_share=0.1,
             geometric_p=0.2, max_span=10)
SPAN = dict(TOKEN, masking="span")


class Masking:
    def __init__(self, rule, seed, sample, vocab_size):
        self.rule, self.vocab_size = rule, vocab_size
        self.key = stream(seed, sample, 0, 0x4D4C4D)

    def replaced(self, position, token, word):
        share = Fraction(word, 2**32)
        if share < Fraction(self.rule["mask_share"]):
            return self.rule["mask_id"]
        if share < Fraction(self.rule["mask_share"] + self.rule["random_share"]):
            return philox([position, 0, 0, 0], self.key)[2] * self.vocab_size // 2**32
        return token

    def length(self, word):
        p = self.rule["geometric_p"]
        weights = [p * (1 - p) ** i for i in range(self.rule["max_span"])]
        at = word / 2**32 * sum(weights)
        return next(i + 1 for i in range(len(weights)) if at < sum(weights[: i + 1]))

    def mask(self, tokens, eligible):
        """The tokens that the model reads, and which of them it has to find."""
        tokens, chosen = list(tokens), [0] * len(tokens)
        if self.rule["masking"] == "token":
            for i, token in enumerate(tokens):
                words = philox([i, 0, 0, 0], self.key)
                if eligible[i] and Fraction(words[0], 2**32) < Fraction(self.rule["mask_rate"]):
                    chosen[i] = 1
                    tokens[i] = self.replaced(i, token, words[1])
            return tokens, chosen
        places = [i for i, may in enumerate(eligible) if may]
        wanted, n = math.ceil(self.rule["mask_rate"] * len(places)), 0
        while sum(chosen) < wanted:
            words = philox([n, 1, 0, 0], self.key)
            n += 1
            i = places[words[1] * len(places) // 2**32]
            for _ in range(self.length(words[0])):
                if i == len(tokens) or not eligible[i] or chosen[i] or sum(chosen) == wanted:
                    break
                chosen[i] = 1
                tokens[i] = self.replaced(i, tokens[i], words[2])
                i += 1
        return tokens, chosen


# Rule, seed, sample, vocabulary, length, every so many tokens that may not be chosen.
CASES = [
    (TOKEN, 1234, 0, 101, 48, 0),
    (TOKEN, 1234, 1, 101, 48, 7),
    (TOKEN, 4294967295, 2**40 + 3, 50257, 64, 0),
    (dict(TOKEN, mask_rate=0.5, mask_share=0.25, random_share=0.5), 7, 12, 30000, 64, 5),
    (SPAN, 1234, 0, 101, 64, 0),
    (SPAN, 5, 2**33, 101, 64, 9),
    (dict(SPAN, mask_rate=0.6, geometric_p=0.5, max_span=4, random_share=0.2), 1, 2, 50257, 64, 0),
    (dict(SPAN, mask_rate=0.99), 1, 2, 101, 40, 2),
]


def main():
    out = ["// Tokens masked apart from gptrain by make_masking_fixture.py, which wrote this file.",
           "#pragma once", "", "#include <cstdint>", "#include <vector>", "",
           '#include "data/token_masking.h"', "", "// clang-format off",
           "namespace gptrain::expected {", "", "struct MaskingCase {", "    MlmSpec rule;",
           "    std::uint64_t seed;", "    std::int64_t sample, vocab_size, every;",
           "    std::vector<std::int32_t> read;    ///< of tokens 1, 2, 3, ...",
           "    std::vector<std::uint8_t> chosen;", "};", "",
           "inline const std::vector<MaskingCase> masking_cases = {"]
    for rule, seed, sample, vocab, length, every in CASES:
        eligible = [not every or i % every != 0 for i in range(length)]
        read, chosen = Masking(rule, seed, sample, vocab).mask(range(1, length + 1), eligible)
        keys = ", ".join(f".{key} = " + (f"Masking::{value}" if key == "masking" else f"{value!r}")
                         for key, value in rule.items())
        out += [f"    {{{{{keys}}},", f"     {seed}u, {sample}, {vocab}, {every},",
                f"     {{{', '.join(map(str, read))}}},", f"     {{{', '.join(map(str, chosen))}}}}},"]
    out += ["};", "", "}  // namespace gptrain::expected", "// clang-format on", ""]
    (HERE / "expected_masking.h").write_text("\n".join(out))


if __name__ == "__main__":
    main()
