#!/usr/bin/env python3
"""Makes learned/: which tokens of conversations a model learns, without gptrain.

    pip install transformers==5.23.0 tokenizers==0.23.3 jinja2
    test/chat/make_learned_fixture.py

bpe.json, nfc.json  the tokenizers llama3.json and qwen2.json (which normalizes) of ../tokenizer/bpe/, with the
                    marks of the templates as special tokens
expected.jsonl      each line has a tokenizer, a template, the messages, and the ids with their mask,
                    or null for both if the template does not say what the assistant writes

With the templates of learned/, which have {% generation %}, ids and mask are those of transformers'
apply_chat_template(..., return_assistant_tokens_mask=True). It also learns a token that begins before
the assistant's text; conversations with such a token are left out. With the templates of templates/ the
text after the generation prompt is learned: the texts are rendered by transformers, and a token is
learned if its first character, as the library tokenizers has it, is.
"""
import json
import pathlib

from make_chat_fixture import CONVERSATIONS
from tokenizers import AddedToken, Tokenizer
from transformers import PreTrainedTokenizerFast
from transformers.utils.chat_template_utils import render_jinja_template

HERE = pathlib.Path(__file__).parent
FOLDER = HERE / "learned"
MARKS = ["<|im_start|>", "<|im_end|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>",
         "<start_of_turn>", "<end_of_turn>", "<|user|>", "<|assistant|>", "<s>", "</s>"]
SPECIAL = dict(bos_token="<s>", eos_token="</s>")


def make_tokenizer(name, source):
    tokenizer = Tokenizer.from_file(str(HERE.parent / "tokenizer/bpe" / source))
    tokenizer.add_special_tokens([AddedToken(mark, normalized=False) for mark in MARKS])
    (FOLDER / name).write_text(tokenizer.to_str() + "\n")
    return tokenizer


def says_something(messages):
    said = [m for m in messages if m["role"] == "assistant"]
    return said and all(isinstance(m.get("content"), str) and m["content"] for m in said)


def render(template, messages, prompt):
    texts, _ = render_jinja_template(conversations=[messages], chat_template=template,
                                     add_generation_prompt=prompt, **SPECIAL)
    return texts[0]


def by_prefix(tokenizer, template, messages):
    """Ids and mask; None if the texts do not begin with each other, or the template refuses one."""
    ranges = []
    try:
        whole = render(template, messages, False)
        for i, message in enumerate(messages):
            if message["role"] != "assistant":
                continue
            prompt = render(template, messages[:i], True)
            said = render(template, messages[:i + 1], False)
            if not said.startswith(prompt) or not whole.startswith(said):
                return None
            ranges.append((len(prompt), len(said)))
    except Exception:
        return None
    encoding = tokenizer.encode(whole, add_special_tokens=False)
    mask = [int(any(a <= begin < b for a, b in ranges)) for begin, _ in encoding.offsets]
    return encoding.ids, mask


def by_tags(tokenizer, template, messages):
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, **SPECIAL)
    out = fast.apply_chat_template(messages, chat_template=template, tokenize=True, return_dict=True,
                                   return_assistant_tokens_mask=True)
    return list(out["input_ids"]), [int(x) for x in out["assistant_masks"]]


def begins_inside(tokenizer, template, messages):
    """True if a token holds both the assistant's first character and what is before it."""
    whole, ranges = render_jinja_template(conversations=[messages], chat_template=template,
                                          return_assistant_tokens_mask=True, **SPECIAL)
    starts = {a for a, _ in ranges[0]}
    offsets = tokenizer.encode(whole[0], add_special_tokens=False).offsets
    return any(a < start < b for start in starts for a, b in offsets)


def main():
    lines = []
    for name, source in (("bpe.json", "llama3.json"), ("nfc.json", "qwen2.json")):
        tokenizer = make_tokenizer(name, source)
        for path in sorted(FOLDER.glob("*.jinja")) + sorted((HERE / "templates").glob("*.jinja")):
            template = path.read_text(encoding="utf-8")
            tagged = path.parent == FOLDER
            for messages in filter(says_something, CONVERSATIONS):
                if tagged and begins_inside(tokenizer, template, messages):
                    continue
                result = (by_tags if tagged else by_prefix)(tokenizer, template, messages)
                ids, mask = result or (None, None)
                lines.append(dict(tokenizer=name, template=f"{path.parent.name}/{path.name}",
                                  messages=messages, ids=ids,
                                  mask=mask and "".join(map(str, mask))))
    with open(FOLDER / "expected.jsonl", "w", encoding="utf-8") as out:
        for line in lines:
            out.write(json.dumps(line, ensure_ascii=False) + "\n")
    refused = sum(line["ids"] is None for line in lines)
    tagged = sum(line["template"].startswith("learned/") for line in lines)
    print(len(lines), "conversations,", tagged, "with tags,", refused, "refused")


if __name__ == "__main__":
    main()
