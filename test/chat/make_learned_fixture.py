#!/usr/bin/env python3
"""Makes learned/: which tokens of conversations a model learns, without gptrain.

    pip install transformers==5.23.0 tokenizers==0.23.3 jinja2
    test/chat/make_learned_fixture.py

bpe.json, nfc.json  the tokenizers llama3.json and qwen2.json (which normalizes) of ../tokenizer/bpe/, with the
                    marks of the templates as special tokens
expected.jsonl      each line has a tokenizer, a template, the messages, and the documents, each with its ids and
                    mask, or null if the template does not say what the assistant writes

With the templates of learned/, which have {% generation %}, ids and mask are those of transformers'
apply_chat_template(..., return_assistant_tokens_mask=True). It also learns a token that begins before
the assistant's text; conversations with such a token are left out. With the templates of templates/ each
message is learned behind the generation prompt in the text in which it is the last, by the rule of
docs/fine-tuning.md: the texts are rendered by transformers, and a token is learned if its first character,
as the library tokenizers has it, is.
"""
import json
import os
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


def answer_begin(text_of, before, said):
    """Where the answer begins in the text in which it is the last; None if that is not known."""
    asked = text_of(before, True)
    if said.startswith(asked):
        return len(asked)
    others = [text_of(before + [dict(role="assistant", content=text)], False) for text in "AB"]
    begin = len(os.path.commonprefix([asked, said, *others]))
    first = len(os.path.commonprefix([asked, text_of(before, False)]))
    if asked.rfind("<", first, begin) > asked.rfind(">", first, begin):
        begin = asked.rfind("<", first, begin)
    return begin if begin > first else None


def learned_texts(text_of, messages):
    """The texts of a conversation and the ranges that are learned; text_of(messages, prompt) renders one.
    None if the template does not say what is learned, or refuses a text."""
    try:
        texts = [(text_of(messages, False), [])]
        for i in reversed(range(len(messages))):
            if messages[i]["role"] != "assistant":
                continue
            said = text_of(messages[:i + 1], False)
            begin = answer_begin(text_of, messages[:i], said)
            if begin is None or not has_reasoning(messages[i], said[begin:]):
                return None
            home = next((t for t in texts if t[0].startswith(said)
                         and (not t[1] or len(said) <= t[1][0][0])), None)
            if home is None:
                home = (said, [])
                texts.append(home)
            home[1].insert(0, (begin, len(said)))
    except Exception:
        return None
    return [(text, ranges) for text, ranges in reversed(texts) if ranges]


def has_reasoning(message, said):
    thoughts = [message.get(key) for key in ("reasoning_content", "thinking", "reasoning")]
    if "</think>" in (message.get("content") or ""):
        thoughts.append(message["content"].rsplit("</think>", 1)[0])
    return all(thought.strip().removeprefix("<think>").strip() in said for thought in thoughts if thought)


def document(tokenizer, text, ranges):
    encoding = tokenizer.encode(text, add_special_tokens=False)
    mask = "".join(str(int(any(a <= begin < b for a, b in ranges))) for begin, _ in encoding.offsets)
    return dict(ids=encoding.ids, mask=mask)


def by_last(tokenizer, template, messages):
    texts = learned_texts(lambda some, prompt: render(template, some, prompt), messages)
    return texts and [document(tokenizer, text, ranges) for text, ranges in texts]


def by_tags(tokenizer, template, messages):
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, **SPECIAL)
    out = fast.apply_chat_template(messages, chat_template=template, tokenize=True, return_dict=True,
                                   return_assistant_tokens_mask=True)
    return [dict(ids=list(out["input_ids"]), mask="".join(str(int(x)) for x in out["assistant_masks"]))]


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
                documents = (by_tags if tagged else by_last)(tokenizer, template, messages)
                lines.append(dict(tokenizer=name, template=f"{path.parent.name}/{path.name}",
                                  messages=messages, documents=documents))
    with open(FOLDER / "expected.jsonl", "w", encoding="utf-8") as out:
        for line in lines:
            out.write(json.dumps(line, ensure_ascii=False) + "\n")
    refused = sum(line["documents"] is None for line in lines)
    several = sum(len(line["documents"] or []) > 1 for line in lines)
    tagged = sum(line["template"].startswith("learned/") for line in lines)
    print(len(lines), "conversations,", tagged, "with tags,", refused, "refused,", several, "several")


if __name__ == "__main__":
    main()
