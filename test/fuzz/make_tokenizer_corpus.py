#!/usr/bin/env python3
"""Makes the files of test/corpus/tiktoken, test/corpus/vocabulary and test/corpus/addedtokens."""
import base64
import json
import pathlib

CORPUS = pathlib.Path(__file__).parent.parent / "corpus"


def write(folder, files):
    for name, contents in files.items():
        data = contents if isinstance(contents, bytes) else contents.encode()
        (CORPUS / folder / name).write_bytes(data)


def ranks(tokens):
    return [base64.b64encode(token).decode() + f" {rank}" for rank, token in enumerate(tokens)]


def tiktoken_files():
    good = ranks([bytes([byte]) for byte in range(256)] + [b"th", b"the", b" the"])
    small = ranks([b"a", b"b", b"ab"])
    return {
        "good": "\n".join(good) + "\n", "no-last-line-end": "\n".join(good),
        "line-ends": "\r\n".join(good) + "\r\n", "blank-lines": "\n\n".join(small) + "\n\n",
        "few-bytes": "\n".join(small) + "\n", "gap": "YQ== 0\nYg== 2\n",
        "twice": "YQ== 0\nYg== 0\n", "same-token": "YQ== 0\nYQ== 1\n",
        "negative": "YQ== -1\n", "huge": "YQ== 99999999999999999999\n",
        "largest": "YQ== 9223372036854775807\n", "fraction": "YQ== 0.5\n",
        "no-rank": "YQ==\n", "no-token": " 0\n", "two-blanks": "YQ==  0\n", "tab": "YQ==\t0\n",
        "no-padding": "YQ 0\n", "bad-digit": "Y!== 0\n", "only-padding": "==== 0\n",
        "padding-inside": "Y=Q= 0\n", "long": base64.b64encode(b"a" * 257).decode() + " 0\n",
        "nul": b"YQ== 0\n\0\0\0\0 1\n", "not-utf8": b"\xff\xfe 0\n", "empty": "",
        "cut": "\n".join(good)[:-3],
    }


def alphabet():
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return [chr(byte) for byte in printable] + [chr(256 + i) for i in range(len(others))]


def vocabulary(extra=(), **changes):
    tokens = [*alphabet(), "th", "the", *extra]
    return {**{token: i for i, token in enumerate(tokens)}, **changes}


def files(vocab, merges, config=None):
    parts = [vocab if isinstance(vocab, str) else json.dumps(vocab), merges]
    if config is not None:
        parts.append(config if isinstance(config, str) else json.dumps(config))
    return "\0".join(parts)


def vocabulary_files():
    merges = "#version: 0.2\nt h\nth e\n"
    good = vocabulary()
    end = {"<|endoftext|>": 258}
    decoder = {"258": {"content": "<|end|>", "special": True}}
    return {
        "good": files(good, merges), "end": files({**good, **end}, merges),
        "gpt2": files(good, merges, {"tokenizer_class": "GPT2Tokenizer"}),
        "qwen2": files(good, merges, {"tokenizer_class": "Qwen2Tokenizer",
                                      "added_tokens_decoder": decoder}),
        "no-merges": files(good, ""), "no-version": files(good, "t h\nth e"),
        "line-ends": files(good, merges.replace("\n", "\r\n")),
        "one-word": files(good, "th\n"), "three-words": files(good, "t h e\n"),
        "blanks": files(good, "t  h\n"), "unknown-part": files(good, "t hh\n"),
        "unknown-whole": files(good, "t i\n"), "later-version": files(good, "t h\n#version: 1\n"),
        "list": files([], merges), "empty-object": files({}, ""), "empty": "",
        "only-merges": files("", merges), "number": files(vocabulary(th="1"), merges),
        "negative": files(vocabulary(th=-1), merges), "gap": files(vocabulary(th=999), merges),
        "twice": files(vocabulary(th=3), merges), "huge": files(vocabulary(th=2 ** 63), merges),
        "same-key": files('{"a": 0, "a": 1}', ""), "cut": files(json.dumps(good)[:-2], merges),
        "end-text": files(vocabulary(**{"<|endoftext|>": "258"}), merges),
        "not-utf8": files(good, merges).encode() + b"\0\xff",
        "config-list": files(good, merges, []), "config-cut": files(good, merges, "{"),
        "class-other": files(good, merges, {"tokenizer_class": "LlamaTokenizer"}),
        "class-number": files(good, merges, {"tokenizer_class": 2}),
        "decoder-list": files(good, merges, {"added_tokens_decoder": []}),
        "decoder-word": files(good, merges, {"added_tokens_decoder": {"a": decoder["258"]}}),
        "decoder-text": files(good, merges, {"added_tokens_decoder": {"258": "<|end|>"}}),
        "decoder-far": files(good, merges, {"added_tokens_decoder": {"9999": decoder["258"]}}),
        "decoder-flag": files(good, merges, {"added_tokens_decoder": {
            "258": {"content": "x", "special": True, "lstrip": True}}}),
    }


def added_files():
    """Next to a vocabulary of 257 tokens, "th" the last of them."""
    good = {"<s>": 257, "</s>": 258}

    def both(added, special):
        return json.dumps(added) + "\0" + (special if isinstance(special, str) else
                                           json.dumps(special))

    return {
        "good": json.dumps(good), "none": "{}",
        "special-text": both(good, {"bos_token": "<s>"}),
        "special-object": both(good, {"eos_token": {"content": "</s>", "lstrip": False}}),
        "special-list": both(good, {"additional_special_tokens": ["<s>", {"content": "</s>"}]}),
        "special-other": both(good, {"pad_token": "<pad>", "unk_token": None, "mask_token": 3}),
        "special-nested": both(good, {"bos_token": {"content": {"content": [["<s>"]]}}}),
        "special-array": both(good, ["<s>"]), "special-number": both(good, "7"),
        "special-empty": both(good, ""), "special-cut": both(good, '{"bos_token": "<s>'),
        "special-twice": both(good, '{"a": "<s>", "a": "</s>"}'),
        "special-deep": both(good, "[" * 1000 + "]" * 1000),
        "special-not-utf8": both(good, "").encode() + b'{"bos_token": "\xff"}',
        "end": json.dumps({"<|endoftext|>": 257}), "in-vocabulary": json.dumps({"th": 256}),
        "in-vocabulary-other": json.dumps({"th": 257}), "taken": json.dumps({"<s>": 256}),
        "same-id": json.dumps({"<s>": 257, "</s>": 257}), "gap": json.dumps({"<s>": 258}),
        "same-key": '{"<s>": 257, "<s>": 258}', "negative": json.dumps({"<s>": -1}),
        "huge": json.dumps({"<s>": 2 ** 63}), "largest": json.dumps({"<s>": 2 ** 31 - 1}),
        "beyond-32-bits": json.dumps({"<s>": 2 ** 32 + 257}),
        "fraction": json.dumps({"<s>": 257.0}),
        "text": json.dumps({"<s>": "257"}), "empty-name": json.dumps({"": 257}),
        "list": json.dumps(["<s>"]), "number": "257", "null": "null", "empty": "",
        "cut": json.dumps(good)[:-3], "not-utf8": b'{"\xff": 257}',
        "nul-escape": json.dumps({"a\0b": 257}), "blank": json.dumps({" ": 257}),
        "long": json.dumps({"<" * 5000: 257}),
    }


write("tiktoken", tiktoken_files())
write("vocabulary", vocabulary_files())
write("addedtokens", added_files())
