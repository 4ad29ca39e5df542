#!/usr/bin/env python3
"""Makes marked/: texts that spell special tokens of a sentencepiece model, and their ids, without
gptrain.

    pip install transformers==5.23.0 tokenizers==0.23.3 sentencepiece==0.2.1 protobuf
    test/chat/make_marked_fixture.py

tokenizer.model  BPE as Llama 2 has it, with the control pieces [INST] and [/INST], and the
                 user-defined piece <tool>
expected.jsonl   each line has keys of a tokenizer_config.json, a text, and the ids that transformers
                 finds
"""
import io
import itertools
import json
import pathlib
import random
import tempfile

import sentencepiece
from transformers import AutoTokenizer

FOLDER = pathlib.Path(__file__).parent / "marked"
BASE = {"tokenizer_class": "LlamaTokenizer", "bos_token": "<s>", "eos_token": "</s>",
        "unk_token": "<unk>"}
WORDS = ("and the earth was without form void darkness upon face deep light day evening morning "
         "waters under heaven let there be firmament midst").split()
MARKS = ["<s>", "</s>", "<unk>", "[INST]", "[/INST]", "<tool>"]
PARTS = ["the light", " the light", "  the", "day ", "\n", " \n void", "é", "[INS", "T]", "<0x41>"]


def train():
    draw = random.Random(1)
    lines = (" ".join(draw.choices(WORDS, k=9)) for _ in range(2000))
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=lines, model_writer=model, model_type="bpe", vocab_size=400,
        byte_fallback=True, normalization_rule_name="identity", remove_extra_whitespaces=False,
        control_symbols=["[INST]", "[/INST]"], user_defined_symbols=["<tool>"],
        num_threads=1, minloglevel=2)
    FOLDER.joinpath("tokenizer.model").write_bytes(model.getvalue())


def configs():
    model = sentencepiece.SentencePieceProcessor(str(FOLDER / "tokenizer.model"))
    pieces = [model.id_to_piece(id) for id in range(model.vocab_size())]
    id = next(id for id in range(263, len(pieces)) if pieces[id].isalpha() and len(pieces[id]) > 1)
    added = {str(id): {"content": pieces[id], "special": True}}
    yield {}
    yield {"legacy": True}
    yield {"added_tokens_decoder": added}


def texts(draw):
    for mark, part in itertools.product(MARKS, PARTS):
        yield from (mark + part, part + mark, mark + part + mark)
    for _ in range(20):
        yield "".join(draw.choice(draw.choice((MARKS, PARTS))) for _ in range(8))


def main():
    FOLDER.mkdir(exist_ok=True)
    train()
    model = (FOLDER / "tokenizer.model").read_bytes()
    draw = random.Random(2)
    lines = []
    for config in configs():
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "tokenizer.model").write_bytes(model)
            pathlib.Path(folder, "tokenizer_config.json").write_text(json.dumps(BASE | config))
            tokenizer = AutoTokenizer.from_pretrained(folder)
            for text in dict.fromkeys(texts(draw)):
                ids = tokenizer(text, add_special_tokens=False)["input_ids"]
                lines.append(json.dumps({"config": config, "text": text, "ids": ids}))
    FOLDER.joinpath("expected.jsonl").write_text("\n".join(lines) + "\n")


main()
