#!/usr/bin/env python3
"""Makes the hostile tokenizer.json files next to this script, and the list of the expected messages.

expected.txt: a line for each file: name, tab, words of the message. All differ in one point from
good.json, byte-level BPE of the 256 bytes and two merges.
"""

import copy
import json
import os

HERE = os.path.dirname(os.path.abspath(__file__))


def alphabet():
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    spelled = {byte: chr(byte) for byte in printable}
    spelled.update({byte: chr(256 + i) for i, byte in enumerate(others)})
    return [spelled[byte] for byte in range(256)]


BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True,
              "use_regex": True}
VOCAB = {token: i for i, token in enumerate([*alphabet(), "th", "the"])}
GOOD = {
    "version": "1.0",
    "added_tokens": [{"id": 258, "content": "<|endoftext|>", "single_word": False, "lstrip": False,
                      "rstrip": False, "normalized": False, "special": True}],
    "normalizer": None,
    "pre_tokenizer": BYTE_LEVEL,
    "model": {"type": "BPE", "vocab": VOCAB, "merges": [["t", "h"], "th e"]},
}
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
          r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def split(pattern, behavior="Isolated", invert=False):
    return {"type": "Split", "pattern": pattern, "behavior": behavior, "invert": invert}


def sequence(*parts):
    return {"type": "Sequence", "pretokenizers": list(parts)}


def changed(path, value):
    """GOOD with the value at a path of keys; None in a dict of changes removes nothing."""
    file = copy.deepcopy(GOOD)
    at = file
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return file


def without(path):
    file = copy.deepcopy(GOOD)
    at = file
    for key in path[:-1]:
        at = at[key]
    del at[path[-1]]
    return file


METASPACE = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first",
             "split": False}
REPLACE = {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}
STRIP = {"type": "Strip", "content": " ", "start": 1, "stop": 0}
FUSE = {"type": "Fuse"}
CHARACTERS = {
    **GOOD,
    "pre_tokenizer": METASPACE,
    "decoder": {"type": "Sequence", "decoders": [
        {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "},
        {"type": "ByteFallback"}, FUSE, STRIP]},
    "model": {"type": "BPE", "unk_token": "<unk>", "fuse_unk": True, "byte_fallback": True,
              "vocab": {token: i for i, token in enumerate(
                  ["<unk>", "<0x0A>", "<0xC3>", "\u2581", "t", "h", "e", "th", "the", "\u2581the",
                   "\u2581\u2581"])},
              "merges": [["t", "h"], ["th", "e"], ["\u2581", "the"], ["\u2581", "\u2581"]]},
    "added_tokens": [
        {"id": 0, "content": "<unk>", "special": True},
        {"id": 11, "content": "<|endoftext|>", "special": True, "lstrip": True, "rstrip": True},
        {"id": 12, "content": "thin", "special": False, "single_word": True, "normalized": True}],
}


BERT = {
    **GOOD,
    "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True,
                   "strip_accents": None, "lowercase": True},
    "pre_tokenizer": {"type": "BertPreTokenizer"},
    "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
    "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
              "max_input_chars_per_word": 100, "vocab": {token: i for i, token in enumerate(
                  ["[UNK]", "[MASK]", "th", "##e", "##in", "e", "1", "##2", "'", "s", "<", "|"])}},
    "added_tokens": [{"id": 1, "content": "[MASK]", "special": True, "lstrip": True},
                     {"id": 12, "content": "<|endoftext|>", "special": False}],
}


def bert(path, value):
    file = copy.deepcopy(BERT)
    at = file
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return file


def characters(path, value, **changes):
    """CHARACTERS with the value at a path of keys, and other members."""
    file = copy.deepcopy(CHARACTERS)
    at = file
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return {**file, **changes}


# Files that load: where fuzzing begins.
OTHERS = {
    "characters": CHARACTERS,
    "llama2": characters(["normalizer"], {"type": "Sequence", "normalizers": [
        {"type": "Prepend", "prepend": "\u2581"}, REPLACE]}, pre_tokenizer=None),
    "divided": characters(["pre_tokenizer", "split"], True,
                          decoder=dict(METASPACE, prepend_scheme="always")),
    "bert": BERT,
    "deepseek": changed(["pre_tokenizer"], sequence(
        split({"Regex": r"\p{N}{1,3}"}), split({"Regex": r"\s?\p{L}+"}),
        split({"Regex": r"\d{1,3}(?=(?:\d{3})*\b)"}), split({"Regex": r"\s+$"}), BYTE_LEVEL)),
}

CASES = {
    "model_missing": (without(["model"]), "key 'model' is missing"),
    "model_unigram": (changed(["model", "type"], "Unigram"), 'model.type: "Unigram": not supported'),
    "model_type_number": (changed(["model", "type"], 3), "'type' must be a string"),
    "prefix": (changed(["model", "continuing_subword_prefix"], "##"),
               "model.continuing_subword_prefix"),
    "suffix": (changed(["model", "end_of_word_suffix"], "</w>"), "model.end_of_word_suffix"),
    "byte_fallback": (changed(["model"], {**GOOD["model"], "byte_fallback": True, "vocab": {
        token: i for i, token in enumerate([*list(VOCAB)[1:], "more", "<|endoftext|>"])}}),
        "model.byte_fallback: true with a vocabulary that lacks byte 0"),
    "dropout": (changed(["model", "dropout"], 0.1), "model.dropout"),
    "vocab_list": (changed(["model", "vocab"], ["a"]), "'vocab' must be an object"),
    "vocab_empty": (changed(["model", "vocab"], {}), '"t" of merge 0 is not in the vocabulary'),
    "id_text": (changed(["model", "vocab", "a"], "7"), 'the id of "a" must be a number'),
    "id_negative": (changed(["model", "vocab", "a"], -1), 'the id of "a" must be a number'),
    "id_huge": (changed(["model", "vocab", "a"], 2**31), 'the id of "a" must be a number'),
    "id_gap": (changed(["model", "vocab", "the"], 2**31 - 1), "leaves a gap"),
    "id_twice": (changed(["model", "vocab", "the"], 5), "is given twice"),
    "merges_object": (changed(["model", "merges"], {}), "'merges' must be an array"),
    "merge_one": (changed(["model", "merges", 0], ["t"]), "merge 0 must be two tokens"),
    "merge_three": (changed(["model", "merges", 1], "t h e"), "merge 1 must be two tokens"),
    "merge_number": (changed(["model", "merges", 0], [1, 2]), "merge 0 must be two tokens"),
    "merge_unknown": (changed(["model", "merges", 0], ["t", "hx"]), '"hx" of merge 0'),
    "merge_whole": (changed(["model", "merges", 0], ["q", "q"]), '"qq" of merge 0'),
    "added_object": (changed(["added_tokens"], {}), "'added_tokens' must be an array"),
    "added_empty": (changed(["added_tokens", 0, "content"], ""), "must have 1 to 512 bytes"),
    "added_long": (changed(["added_tokens", 0, "content"], "x" * 600), "must have 1 to 512 bytes"),
    "added_negative": (changed(["added_tokens", 0, "id"], -5), "below 0"),
    "added_huge": (changed(["added_tokens", 0, "id"], 2**40), "which is above 2147483647"),
    "added_other": (changed(["added_tokens", 0], dict(GOOD["added_tokens"][0], content="the")),
                    "but is 257 elsewhere"),
    "added_lstrip": (changed(["added_tokens", 0, "lstrip"], 1), "'lstrip' must be true or false"),
    "added_special": (without(["added_tokens", 0, "special"]), "key 'special' is missing"),
    "normalizer_nfkc": (changed(["normalizer"], {"type": "NFKC"}), 'normalizer: "NFKC"'),
    "normalizer_nested": (changed(["normalizer"], {"type": "Sequence", "normalizers": [
        {"type": "Sequence", "normalizers": []}]}), 'normalizer: "Sequence"'),
    "pre_none": (changed(["pre_tokenizer"], None), "decoder: none"),
    "pre_metaspace": (changed(["pre_tokenizer"], METASPACE), "decoder: none"),
    "pre_bert": (changed(["pre_tokenizer"], {"type": "BertPreTokenizer"}), '"BertPreTokenizer"'),
    "metaspace_replacement": (characters(["pre_tokenizer", "replacement"], "_"),
                              "another replacement than U+2581"),
    "metaspace_scheme": (characters(["pre_tokenizer", "prepend_scheme"], "last"),
                         'prepend_scheme "last"'),
    "metaspace_bytes": (changed(["pre_tokenizer"], sequence(METASPACE, BYTE_LEVEL)),
                        '"ByteLevel" after Metaspace'),
    "metaspace_digits": (changed(["pre_tokenizer"], sequence(
        {"type": "Digits", "individual_digits": True}, METASPACE)),
        "Metaspace after another pre-tokenizer"),
    "replace_other": (characters(["normalizer"], dict(REPLACE, content="_")),
                      "Replace of other texts"),
    "replace_regex": (characters(["normalizer"], dict(REPLACE, pattern={"Regex": " +"})),
                      "Replace of other texts"),
    "replace_bytes": (changed(["normalizer"], REPLACE), "Replace or Prepend with"),
    "prepend_other": (characters(["normalizer"], {"type": "Prepend", "prepend": " "}),
                      "Prepend of other texts"),
    "nfc_characters": (characters(["normalizer"], {"type": "NFC"}), "NFC without"),
    "split_characters": (characters(["pre_tokenizer"], split({"String": " "})),
                         "Split without a Regex"),
    "decoder_bytes": (characters(["decoder"], BYTE_LEVEL), 'decoder: "ByteLevel"'),
    "decoder_strip": (characters(["decoder", "decoders", 3, "start"], 2), 'decoder: "Strip"'),
    "decoder_order": (characters(["decoder", "decoders"], [STRIP, FUSE]), 'decoder: "Strip"'),
    "decoder_after": (characters(["decoder", "decoders"], [FUSE, STRIP, FUSE]),
                      '"Fuse" after Strip'),
    "pieces_unknown": (bert(["model", "unk_token"], "[NONE]"), '"[NONE]" is not in the vocabulary'),
    "pieces_no_unknown": (bert(["model", "unk_token"], None), "WordPiece needs an unk_token"),
    "pieces_long": (bert(["model", "max_input_chars_per_word"], 2**40), "must be 1 to 256"),
    "pieces_decoder": (bert(["decoder"], BYTE_LEVEL), '"ByteLevel" with WordPiece'),
    "pieces_prefix": (bert(["decoder", "prefix"], "@@"), "another prefix than the model's"),
    "pieces_split": (bert(["pre_tokenizer"], {"type": "Whitespace"}), '"Whitespace" with'),
    "pieces_none": (bert(["pre_tokenizer"], None), "none with WordPiece"),
    "pieces_nfc": (bert(["normalizer"], {"type": "NFC"}), 'normalizer: "NFC"'),
    "unknown_missing": (characters(["model", "unk_token"], "[UNK]"),
                        'model.unk_token: "[UNK]" is not in the vocabulary'),
    "pre_prefix_space": (changed(["pre_tokenizer", "add_prefix_space"], True), "add_prefix_space"),
    "pre_no_bytes": (changed(["pre_tokenizer"], sequence(split({"Regex": LLAMA3}))),
                     "without ByteLevel"),
    "pre_after_bytes": (changed(["pre_tokenizer"], sequence(BYTE_LEVEL, BYTE_LEVEL)),
                        "after ByteLevel"),
    "split_other": (changed(["pre_tokenizer"], sequence(split({"Regex": "\\d+"}), BYTE_LEVEL)),
                    'Split with the pattern "\\\\d+"'),
    "split_string": (changed(["pre_tokenizer"], sequence(split({"String": " "}), BYTE_LEVEL)),
                     "Split without a Regex"),
    "split_behavior": (changed(["pre_tokenizer"], sequence(
        split({"Regex": LLAMA3}, "MergedWithPrevious"), BYTE_LEVEL)), "Split with the behavior"),
    "split_partly": (changed(["pre_tokenizer"], sequence(
        split({"Regex": r"\p{N}{1,3}"}, "Removed", True), BYTE_LEVEL)), "Split with the behavior"),
    "split_removed": (changed(["pre_tokenizer"], sequence(
        split({"Regex": LLAMA3}, "Removed"), BYTE_LEVEL)), "Split with the behavior"),
}
TEXTS = {
    "cut": (json.dumps(GOOD)[:-9].encode(), "not valid JSON"),
    "bytes": (b'{"model": "\xff"}', "is not UTF-8 at byte 11"),
    "twice": (b'{"model": {}, "model": {}}', "duplicate key"),
    "deep": (b'{"model": ' + b"[" * 200 + b"]" * 200 + b"}", "nested deeper"),
    "brace": (b"{", "not valid JSON"),
}


def main():
    files = {name: (json.dumps(file, separators=(",", ":")).encode(), words)
             for name, (file, words) in CASES.items()}
    files.update(TEXTS)
    with open(os.path.join(HERE, "expected.txt"), "w", encoding="ascii") as expected:
        for name, (_, words) in sorted(files.items()):
            expected.write(f"{name}\t{words}\n")
    files["good"] = (json.dumps(GOOD, separators=(",", ":")).encode(), "")
    files.update((name, (json.dumps(file, separators=(",", ":")).encode(), ""))
                 for name, file in OTHERS.items())
    for name, (content, _) in files.items():
        with open(os.path.join(HERE, name + ".json"), "wb") as file:
            file.write(content)


if __name__ == "__main__":
    main()
