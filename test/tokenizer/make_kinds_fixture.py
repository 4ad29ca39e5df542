#!/usr/bin/env python3
"""Makes the tokenizers of test/tokenizer/kinds: the pipelines of today's models over two small models,
and the ids and texts that the library gives for hostile texts.

    pip install tokenizers==0.23.3
    test/tokenizer/make_kinds_fixture.py

models.json: byte-level BPE and BPE of characters, trained here on a text made here. kinds.json: for
each kind the model, changes to it, and normalizer, pre_tokenizer, decoder and added_tokens.
expected.jsonl: one text in each line, with its ids by each kind, and what they decode to if that
is another text.
"""

import json
import os
import random

import make_bpe_fixture as other
from tokenizers import Tokenizer, models, normalizers, trainers
from tokenizers import pre_tokenizers as pre

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "kinds")
MARK = "\u2581"
CASED = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+@|"
         r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*@|"
         r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
CONTRACTION = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
O200K = CASED.replace("@", CONTRACTION + "?")
TEKKEN = CASED.replace("@", "").replace("{1,3}", "")
KIMI = r"[\p{Han}]+|" + O200K.replace(r"\p{M}]", r"\p{M}&&[^\p{Han}]]").replace("[\\r\\n/]", "[\\r\\n]")
QWEN35 = (CONTRACTION + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
MINICPM = other.LLAMA3.replace("{1,3}", "+")
SEED = (CONTRACTION + "|[^\r\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1}| ?[^\\s\\p{L}\\p{N}\r\n]+|\\s*[\r\n]+"
        "|\\s+(?!\\S)|\\s+")
LLADA = (r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*"
         r"|\s*[\r\n]|\s+(?!\S)|\s+")
NUMBERS = r"\p{N}{1,3}"
KANA = "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"
ASIAN = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"
DEEPSEEK3 = (r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|"""
             "[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+"
             "|\\s+(?!\\S)|\\s+")
DEEPSEEK_LETTERS = (
    "\\s?[A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-\u02af"
    "\u0370-\u0373\u0376\u0377\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3-"
    "\u03f5\u03f7-\u0481\u048a-\u052f\u0531-\u0556\u10a0-\u10c5\u13a0-\u13f5\u13f8-\u13fd\u1c90"
    "-\u1cba\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77\u1d79-\u1d9a\u1e00-\u1f15\u1f18-\u1f1d"
    "\u1f20-\u1f45\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b\u1f5d\u1f5f-\u1f7d\u1f80-\u1fb4\u1fb6-"
    "\u1fbc\u1fbe\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-\u1fec\u1ff2-\u1ff4"
    "\u1ff6-\u1ffc\u2102\u2107\u210a-\u2113\u2115\u2119-\u211d\u2124\u2126\u2128\u212a-\u212d"
    "\u212f-\u2134\u2139\u213c-\u213f\u2145-\u2149\u214e\u2183\u2184\u2c00-\u2c7b\u2c7e-\u2ce4"
    "\u2ceb-\u2cee\u2cf2\u2cf3\ua640-\ua66d\ua680-\ua69b\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e"
    "\uab70-\uabbf\ufb00-\ufb06\ufb13-\ufb17\uff21-\uff3a\uff41-\uff5a\U00010400-\U0001044f"
    "\U000104b0-\U000104d3\U000104d8-\U000104fb\U00010c80-\U00010cb2\U00010cc0-\U00010cf2"
    "\U000118a0-\U000118df\U0001e900-\U0001e943]+")
DEEPSEEK_SIGNS = "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+"
BLOOM = " ?[^(\\s|[.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c])]+"
DIGITS = {"type": "Digits", "individual_digits": True}


def split(regex, **changes):
    return {"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": False,
            **changes}


def byte_level(*before, use_regex=False):
    """The pipeline of byte-level BPE."""
    last = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True,
            "use_regex": use_regex}
    return {"model": "bytes", "normalizer": None, "decoder": last,
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": [*before, last]}}


def sequence(key, *parts):
    return {"type": "Sequence", key: list(parts)}


PREPEND = {"type": "Prepend", "prepend": MARK}
REPLACE = {"type": "Replace", "pattern": {"String": " "}, "content": MARK}
UNMARK = {"type": "Replace", "pattern": {"String": MARK}, "content": " "}
FALLBACK, FUSE = {"type": "ByteFallback"}, {"type": "Fuse"}
STRIP = {"type": "Strip", "content": " ", "start": 1, "stop": 0}
KEPT = sequence("decoders", UNMARK, FALLBACK, FUSE)
STRIPPED = sequence("decoders", UNMARK, FALLBACK, FUSE, STRIP)
# Splits after spaces, of which the normalizer leaves none.
AFTER_SPACES = {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious",
                "invert": False}


def metaspace(scheme, divides):
    return {"type": "Metaspace", "replacement": MARK, "prepend_scheme": scheme, "split": divides}


def marked(normalizer, pre_tokenizer, decoder, model="characters", **changes):
    """The pipeline of BPE of characters."""
    return {"model": model, "changes": changes, "normalizer": normalizer,
            "pre_tokenizer": pre_tokenizer, "decoder": decoder}


def bert(cleanup=True, **rules):
    """BERT's pipeline, uncased if the rules are not others."""
    return {"model": "pieces", "pre_tokenizer": {"type": "BertPreTokenizer"},
            "normalizer": {"type": "BertNormalizer", "clean_text": True, "strip_accents": None,
                           "handle_chinese_chars": True, "lowercase": True, **rules},
            "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": cleanup}}


LLAMA2 = sequence("normalizers", PREPEND, REPLACE)
KINDS = {
    "qwen35": {**byte_level(split(QWEN35)), "normalizer": {"type": "NFC"}},
    "minicpm": byte_level(split(NUMBERS), split(MINICPM)),
    "seed": byte_level(split(SEED)),
    "llada": byte_level(split(LLADA)),
    "cl100k": byte_level(split(other.LLAMA3, behavior="Removed", invert=True)),
    "o200k": {**byte_level(split(O200K)), "changes": {"ignore_merges": True}},
    "minimax": byte_level(split(O200K, behavior="Removed", invert=True)),
    "tekken": {**byte_level(split(TEKKEN)), "changes": {"ignore_merges": True}},
    "kimi": byte_level(split(KIMI)),
    "deepseek3": {**byte_level(split(NUMBERS), split(KANA), split(DEEPSEEK3)),
                  "normalizer": sequence("normalizers")},
    "deepseek2": byte_level(split("[\r\n]"), split(DEEPSEEK_LETTERS), split(DEEPSEEK_SIGNS),
                            split(r"\s+$"), split(ASIAN), DIGITS),
    "deepseek_coder": byte_level(split("[\r\n]"), split(r"\s?\p{L}+"), split(r"\s?\p{P}+"),
                                 split(ASIAN), DIGITS),
    "last_blanks": byte_level(split(r"\s+$")),
    "cohere2": byte_level(split(r"\d{1,3}(?=(?:\d{3})*\b)"), split(O200K)),
    "command_r": {**byte_level(DIGITS, use_regex=True), "normalizer": {"type": "NFC"}},
    "bloom": byte_level(split(BLOOM)),
    "llama2": marked(LLAMA2, None, STRIPPED),
    "mistral": marked(None, metaspace("first", False), STRIPPED),
    "legacy": marked(None, metaspace("always", False), STRIPPED),
    "divided": marked(None, metaspace("always", True), metaspace("always", True)),
    "never": marked(None, metaspace("never", False), metaspace("never", False)),
    "gemma": marked(REPLACE, AFTER_SPACES, KEPT),
    "crossing": marked(REPLACE, None, KEPT, model="crossing"),
    "whole": marked(LLAMA2, None, STRIPPED, ignore_merges=True),
    "literal": marked(None, None, sequence("decoders", FALLBACK, FUSE)),
    "unknown": marked(LLAMA2, None, STRIPPED, byte_fallback=False),
    "unknowns": marked(LLAMA2, None, STRIPPED, byte_fallback=False, fuse_unk=False),
    "left_out": marked(LLAMA2, None, STRIPPED, byte_fallback=False, unk_token=None),
    "some_bytes": marked(REPLACE, None, KEPT, model="some_bytes"),
    "bert": bert(),
    "bert_cased": bert(cleanup=False, lowercase=False),
    "bert_accents": bert(strip_accents=False, handle_chinese_chars=False),
    "bert_unclean": {**bert(clean_text=False, strip_accents=True, lowercase=False),
                     "changes": {"max_input_chars_per_word": 4}},
    "bert_as_is": {**bert(), "normalizer": None},
}
ADDED = [("<s>", {"special": True}), ("</s>", {"special": True}),
         ("<mask>", {"special": True, "lstrip": True}), ("<|user|>", {"special": True, "rstrip": True}),
         ("<both>", {"lstrip": True, "rstrip": True}), ("single", {"single_word": True}),
         ("a single", {}), ("added here", {"normalized": True}), ("caf\u00e9s", {"normalized": True}),
         ("\u00e9\u00e9", {"normalized": True, "single_word": True, "lstrip": True}), ("\n\n", {}),
         ("   ", {}), ("x y", {"normalized": True, "rstrip": True}), (MARK + "z", {})]
WORDS = [*other.WORDS, "HelloWORLDfoo", "iPhone", "McDONALDs", "\u01c5enan", "\u02b0ABC", "\u4f60ABc",
         "ABC\u4f60DE", "\u0301A", "A\u0301B", "I'LL", "WE'VE'S", "1234567", "12a", "\u00b2\u00b3",
         "\u3007\u3021", "\u2e80\u2e81x", "/path/To.File", "#include", "...\n/", "\u3000\u3001a",
         "\uff01\uff21", "\u2160x", "3\u2160", "12,345.67", "\u00aa\u00ba", "\u1e9e", "\u24b6\u24d0"]
MARKS = [*other.MARKS, *(content for content, _ in ADDED), " <mask>", "  <|user|>  ", "\t<both>\n",
         "singles", " single.", "\u00e9\u00e9", "cafe\u0301s", "<0x41>", MARK, MARK * 3, "  ", "    "]


def trained(lines, size, before):
    tokenizer = Tokenizer(models.BPE())
    if before:
        tokenizer.pre_tokenizer = before
    tokenizer.train_from_iterator(lines, trainers.BpeTrainer(
        vocab_size=size, show_progress=False, limit_alphabet=90))
    return json.loads(tokenizer.to_str())["model"]


def bytes_across():
    """A model whose merges cross the borders of words, so that ids tell where a text was split."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = other.byte_level(False)
    tokenizer.train_from_iterator(texts(1500), trainers.BpeTrainer(
        vocab_size=900, show_progress=False, initial_alphabet=sorted(pre.ByteLevel.alphabet())))
    return json.loads(tokenizer.to_str())["model"]


def characters(model, lacking=()):
    """A model of characters with the tokens of bytes, as sentencepiece makes them."""
    names = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)
                                       if byte not in lacking)]
    # Runs of marks, as in Gemma and Llama.
    runs = [MARK * n for n in (2, 4, 8) if MARK * n not in model["vocab"]]
    tokens = [*names, *model["vocab"], *runs]
    merges = [*model["merges"], *([run[:len(run) // 2]] * 2 for run in runs)]
    return {"type": "BPE", "dropout": None, "unk_token": "<unk>", "continuing_subword_prefix": None,
            "end_of_word_suffix": None, "fuse_unk": True, "byte_fallback": True,
            "ignore_merges": False, "vocab": {token: i for i, token in enumerate(tokens)},
            "merges": merges}


def word_pieces(lines):
    """WordPiece, trained on the lines as they are and as BERT normalizes them."""
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre.BertPreTokenizer()
    uncased = normalizers.BertNormalizer()
    both = [*lines, *map(uncased.normalize_str, lines), "do not isn't I'm . ? ! , ' we've you're"]
    tokenizer.train_from_iterator(both, trainers.WordPieceTrainer(
        vocab_size=420, show_progress=False, special_tokens=["[UNK]", "[MASK]"]))
    return json.loads(tokenizer.to_str())["model"]


def make_models():
    choose = random.Random(1)
    lines = [" ".join(choose.choices(WORDS, k=12)) for _ in range(400)]
    spaced = [line.replace(" ", MARK) for line in lines]
    by_word = trained(spaced, 300, pre.Metaspace(prepend_scheme="always"))
    return {
        "bytes": bytes_across(),
        "characters": characters(by_word),
        "crossing": characters(trained(spaced, 220, None)),
        "some_bytes": characters(by_word, lacking={*range(0xC2, 0xE0)}),
        "pieces": word_pieces(lines),
    }


def tokenizer_of(kind, all_models):
    model = {**all_models[kind["model"]], **kind.get("changes", {})}
    added = []
    next_id = len(model["vocab"])
    for content, flags in ADDED:
        known = content in model["vocab"]
        added.append({"id": model["vocab"][content] if known else next_id, "content": content,
                      "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
                      "special": False, **flags})
        next_id += not known
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added,
            "normalizer": kind["normalizer"], "pre_tokenizer": kind["pre_tokenizer"],
            "post_processor": None, "decoder": kind["decoder"], "model": model}


def texts(drawn):
    choose = random.Random(4)
    yield from ["", " ", "  a", MARK, MARK + "a", " " + MARK, "<s>a", "a<s> b", "\n\n \n", "x y  z",
                "12345678 1234 12a 123", "\u00e9\u00e9 \u00e9\u00e9a"]
    for _ in range(drawn):
        text = ""
        for _ in range(choose.randint(1, 8)):
            kind = choose.random()
            if kind < 0.4:
                text += choose.choice(WORDS) + choose.choice(["", " ", "  ", "\n", "'s", "'LL"])
            elif kind < 0.55:
                text += choose.choice(MARKS)
            elif kind < 0.65:
                text += "".join(choose.choices(other.SPACES, k=choose.randint(1, 5)))
            elif kind < 0.7:
                text += "".join(choose.choices("0123456789\u0661\u00b2\u2160\u3007", k=choose.randint(1, 9)))
            elif kind < 0.9:
                block = choose.choice(other.BLOCKS)
                text += "".join(chr(choose.randrange(*block)) for _ in range(choose.randint(1, 5)))
            else:
                codes = (choose.randrange(0x10FFFF) for _ in range(choose.randint(1, 3)))
                text += "".join(chr(code) for code in codes if not 0xD800 <= code < 0xE000)
        yield text


def decoded_by(library, kind, ids):
    """What the library decodes, but an added token of byte-level BPE stands for its own text: the
    library takes its letters for the spelling of bytes."""
    added = library.get_added_tokens_decoder()
    if kind["model"] != "bytes":
        return library.decode(ids)
    text, rest = "", []
    for token in [*ids, None]:
        if token is not None and token not in added:
            rest.append(token)
            continue
        text += library.decode(rest)
        rest = []
        if token is not None and not added[token].special:
            text += added[token].content
    return text


def main():
    os.makedirs(FOLDER, exist_ok=True)
    all_models = make_models()
    kinds, libraries = {}, {}
    for name, kind in KINDS.items():
        made = tokenizer_of(kind, all_models)
        libraries[name] = Tokenizer.from_str(json.dumps(made))
        kinds[name] = {**kind, "added_tokens": made["added_tokens"]}
    for name, content in (("models", all_models), ("kinds", kinds)):
        with open(os.path.join(FOLDER, name + ".json"), "w", encoding="utf-8") as file:
            json.dump(content, file, ensure_ascii=False, separators=(",", ":"))
            file.write("\n")
    with open(os.path.join(FOLDER, "expected.jsonl"), "w", encoding="ascii") as file:
        for text in texts(110):
            line = {"text": text, "ids": {}, "decoded": {}}
            for name, library in libraries.items():
                ids = library.encode(text, add_special_tokens=False).ids
                line["ids"][name] = ids
                decoded = decoded_by(library, KINDS[name], ids)
                if decoded != text:
                    line["decoded"][name] = decoded
            file.write(json.dumps(line, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
