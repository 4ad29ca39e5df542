#!/usr/bin/env python3
"""Makes the tokenizers of test/text/bpe and the ids that the library gives for hostile texts.

    pip install tokenizers==0.23.3
    test/tokenizer/make_bpe_fixture.py

vocab.json and merges.txt are GPT-2's form of gpt2.json. One vocabulary, trained here on a text made here, with every pre-tokenizer that gptrain reads.
expected.jsonl: one text in each line, with its ids by each tokenizer and its normalization form C.
"""

import json
import os
import random

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, trainers
from tokenizers import pre_tokenizers as pre

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bpe")
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
          r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace("{1,3}", "")
WORDS = """the of and to in a is that it was for on are with as I his they be at one have this from
    don't I'll we've it's they're he'd I'm WE'LL 12 345 6789 3.14 na\u00efve caf\u00e9 cafe\u0301
    \u00c5ngstr\u00f6m \u4f60\u597d \u4e16\u754c \u3053\u3093\u306b\u3061\u306f
    \uc548\ub155\ud558\uc138\uc694 \u0928\u092e\u0938\u094d\u0924\u0947
    \u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35 \u0645\u0631\u062d\u0628\u0627 \u05e9\u05dc\u05d5\u05dd
    \u041f\u0440\u0438\u0432\u0435\u0442 x\u00b2 \u00bd \u2167 \u0661\u0662\u0663
    \U0001f469\u200d\U0001f467""".split()
MARKS = ["<|endoftext|>", "<|mark|>", "<|mark|>x", "<|mar", "<|", "added here", "caf\u00e9s",
         "cafe\u0301s", "'\u017f", "'S", "\u2581", "\u0120", "\u010a"]
SPACES = " \t\n\r\v\f\u0085\u00a0\u1680\u180e\u2003\u2028\u202f\u205f\u3000\u200b\ufeff"
BLOCKS = [(0x20, 0x7F), (0x20, 0x7F), (1, 0x20), (0xA0, 0x250), (0x300, 0x370), (0x370, 0x600),
          (0x900, 0xE00), (0x1100, 0x1200), (0x1AB0, 0x1AF0), (0x1DC0, 0x2100), (0x3040, 0x3100),
          (0x4E00, 0x4E40), (0xAC00, 0xAC40), (0xF900, 0xFB50), (0xFF00, 0xFFF0),
          (0x10D40, 0x10D70), (0x1D15E, 0x1D1C0), (0x1F600, 0x1F640), (0x2F800, 0x2F840),
          (0x10FFF0, 0x110000)]


def byte_level(use_regex):
    return pre.ByteLevel(add_prefix_space=False, use_regex=use_regex)


def split(pattern):
    return pre.Sequence([pre.Split(Regex(pattern), "isolated"), byte_level(False)])


def train():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = split(LLAMA3)
    trainer = trainers.BpeTrainer(vocab_size=520, show_progress=False,
                                  initial_alphabet=sorted(pre.ByteLevel.alphabet()))
    choose = random.Random(1)
    lines = [" ".join(choose.choices(WORDS, k=12)) for _ in range(400)]
    tokenizer.train_from_iterator(lines, trainer)
    return json.loads(tokenizer.to_str())["model"]


def tokenizer_of(model, pre_tokenizer, normalizer=None, ignore_merges=False):
    merges = [tuple(merge) for merge in model["merges"]]
    tokenizer = Tokenizer(models.BPE(model["vocab"], merges, ignore_merges=ignore_merges))
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.ByteLevel()
    if normalizer:
        tokenizer.normalizer = normalizer
    # Not special tokens are found in normalized text.
    tokenizer.add_tokens(["added here", "caf\u00e9s"])
    tokenizer.add_special_tokens(["<|endoftext|>", "<|mark|>", "<|mark|>x"])
    return tokenizer


def without_bytes(model, lacking):
    """The model without the tokens of these bytes, its ids counted anew."""
    alphabet = {chr(i): i for i in [*range(33, 127), *range(161, 173), *range(174, 256)]}
    others = [i for i in range(256) if i not in alphabet.values()]
    alphabet.update((chr(256 + n), i) for n, i in enumerate(others))
    gone = {letter for letter, byte in alphabet.items() if byte in lacking}
    tokens = [token for token in model["vocab"] if not gone.intersection(token)]
    # A whole word keeps such a byte, where words that are tokens are not merged.
    tokens.append("Zebra")
    merges = [merge for merge in model["merges"] if not gone.intersection("".join(merge))]
    return {"vocab": {token: i for i, token in enumerate(tokens)}, "merges": merges}


def texts(drawn=500):
    choose = random.Random(2)
    yield from ["", " ", "\n", "'", "a" * 200, " " * 100, "ab" * 50, " \n" * 40, "'s'S'LL" * 9,
                "1" * 70, "<|endoftext|>" * 4, "\u0344\u0958\u1fed"]
    for _ in range(drawn):
        text = ""
        for _ in range(choose.randint(1, 8)):
            kind = choose.random()
            if kind < 0.4:
                text += choose.choice(WORDS) + choose.choice(["", " ", "  ", "\n"])
            elif kind < 0.55:
                text += choose.choice(MARKS)
            elif kind < 0.7:
                text += "".join(choose.choices(SPACES, k=choose.randint(1, 5)))
            else:
                block = choose.choice(BLOCKS)
                text += "".join(chr(choose.randrange(*block)) for _ in range(choose.randint(1, 5)))
        yield text


def main():
    os.makedirs(FOLDER, exist_ok=True)
    model = train()
    # A word that merges do not reach: only ignore_merges finds it.
    model["vocab"]["\u0120unreached"] = len(model["vocab"])
    tokenizers = {
        "gpt2": tokenizer_of(model, byte_level(True)),
        "llama3": tokenizer_of(model, split(LLAMA3), ignore_merges=True),
        "qwen2": tokenizer_of(model, split(QWEN2), normalizers.NFC()),
        "digits": tokenizer_of(model, pre.Sequence([pre.Digits(individual_digits=True),
                                                    byte_level(True)])),
        "digit_runs": tokenizer_of(model, pre.Sequence([pre.Digits(), byte_level(True)])),
        "whole": tokenizer_of(model, byte_level(False)),
        "gaps": tokenizer_of(without_bytes(model, [*range(9), *range(14, 32), 127, *b"ZqI", 0xCC]),
                             split(LLAMA3), ignore_merges=True),
    }
    for name, tokenizer in tokenizers.items():
        tokenizer.save(os.path.join(FOLDER, name + ".json"), pretty=False)
    vocabulary = {**model["vocab"], "<|endoftext|>": len(model["vocab"])}
    with open(os.path.join(FOLDER, "vocab.json"), "w", encoding="utf-8") as file:
        json.dump(vocabulary, file, ensure_ascii=False, separators=(",", ":"))
    with open(os.path.join(FOLDER, "merges.txt"), "w", encoding="utf-8") as file:
        file.write("#version: 0.2\n" + "".join(" ".join(merge) + "\n"
                                               for merge in model["merges"]))
    nfc = normalizers.NFC()
    with open(os.path.join(FOLDER, "expected.jsonl"), "w", encoding="ascii") as file:
        for text in [*texts(), "an unreached word", "Zebra a Zebra Zoo th\x13e q t\x13\x13he\x13"]:
            ids = {name: tokenizer.encode(text, add_special_tokens=False).ids
                   for name, tokenizer in tokenizers.items()}
            line = {"text": text, "nfc": nfc.normalize_str(text), **ids}
            file.write(json.dumps(line, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
