#!/usr/bin/env python3
"""Compares the speed of gptrain's byte-level BPE with other programs, on one core.

    pip install tokenizers tiktoken
    scripts/bench_tokenizers.py TOKENIZER.json FILE [build/cpu/test/tokenizer/bench_encode]

Each line of FILE is a document. Every program encodes all of them three times in one process; the
least CPU time counts. tiktoken takes the vocabulary of the tokenizer.json and its pattern; Python
normalizes its texts first where the tokenizer.json asks for NFC, as Qwen2's own tokenizer does.
"""

import json
import os
import re
import subprocess
import sys
import time
import unicodedata

os.environ["RAYON_NUM_THREADS"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"

import tiktoken  # noqa: E402
from tokenizers import Tokenizer  # noqa: E402
from tokenizers.pre_tokenizers import ByteLevel  # noqa: E402

GPT2 = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


def byte_of_spelling():
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {**{chr(byte): byte for byte in printable},
            **{chr(256 + i): byte for i, byte in enumerate(others)}}


def tiktoken_of(path):
    """A function from a text to ids."""
    with open(path, encoding="utf-8") as file:
        description = json.load(file)
    added = {token["content"]: token["id"] for token in description["added_tokens"]}
    bytes_of = byte_of_spelling()
    ranks = {bytes(bytes_of[char] for char in token): rank
             for token, rank in description["model"]["vocab"].items() if token not in added}
    split = re.search(r'"Regex": ?("(?:[^"\\]|\\.)*")', json.dumps(description))
    pattern = json.loads(split.group(1)) if split else GPT2
    encode = tiktoken.Encoding("bench", pat_str=pattern, mergeable_ranks=ranks,
                               special_tokens=added).encode_ordinary
    if description["normalizer"] is None:
        return encode
    return lambda text: encode(unicodedata.normalize(description["normalizer"]["type"], text))


def seconds_of(work):
    start = time.process_time()
    tokens = work()
    return time.process_time() - start, tokens


def main():
    path, corpus = sys.argv[1:3]
    bench = sys.argv[3] if len(sys.argv) > 3 else "build/cpu/test/tokenizer/bench_encode"
    with open(corpus, encoding="utf-8", newline="\n") as file:
        documents = file.read().split("\n")[:-1]
    megabytes = sum(len(document.encode()) for document in documents) / 2**20
    library = Tokenizer.from_file(path)
    encode = tiktoken_of(path)
    programs = {
        "tokenizers": lambda: sum(len(e.ids) for e in library.encode_batch_fast(
            documents, add_special_tokens=False)),
        "tiktoken": lambda: sum(len(encode(d)) for d in documents),
    }
    best = {}
    line = subprocess.run([bench, path, corpus], capture_output=True, text=True, check=True)
    speed, tokens = re.match(r"gptrain: (\S+) MiB/s, (\d+) tokens", line.stdout).groups()
    best["gptrain"] = (float(speed), int(tokens))
    for _ in range(3):
        for name, work in programs.items():
            seconds, tokens = seconds_of(work)
            best[name] = max(best.get(name, (0, 0)), (megabytes / seconds, tokens))
    for name, (speed, tokens) in best.items():
        print(f"{name}: {speed:.1f} MiB/s, {tokens} tokens;"
              f" gptrain is {best['gptrain'][0] / speed:.1f} times as fast")


if __name__ == "__main__":
    main()
