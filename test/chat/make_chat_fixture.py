#!/usr/bin/env python3
"""Writes templates/expected.jsonl: what transformers 5.23 makes of conversations with templates/*.jinja.

Each line has the template, the messages, the flag add_generation_prompt and the text, which is null
if the template refuses the conversation. The templates have the constructs of those that published
models come with.
"""
import json
import pathlib

from transformers.utils.chat_template_utils import render_jinja_template

FOLDER = pathlib.Path(__file__).parent / "templates"
USER, ASSISTANT, SYSTEM = "user", "assistant", "system"


def turns(*contents, system=None):
    first = [] if system is None else [dict(role=SYSTEM, content=system)]
    roles = [USER, ASSISTANT] * len(contents)
    return first + [dict(role=role, content=text) for role, text in zip(roles, contents)]


CONVERSATIONS = [
    turns("Hi"),
    turns("Hi", system="Be brief."),
    turns("Hi", "Hello!"),
    turns("Hi", "Hello!", "How are you?"),
    turns("Hi", "Hello!", "How are you?", system="Be brief."),
    turns("Hi", "Hello!", "How are you?", "Fine.", "Good.", "Yes.", "Bye"),
    turns(*[f"turn {i}" for i in range(12)]),
    turns(*[f"turn {i}" for i in range(9)], system="many turns"),
    turns(""),
    turns("", ""),
    turns("   "),
    turns(" \n\t Hi \n\n"),
    turns("  spaces ", "  more \n", " \r\n end "),
    turns("\u00a0\u3000wide\u2003\u200b", "\u2028lines\u2029"),
    turns("\x1c\x1d\x1e\x1f\x85odd\x0b\x0c"),
    turns("Gr\u00fc\u00dfe aus K\u00f6ln", "\u4f60\u597d\uff0c\u4e16\u754c", "\U0001f44d\U0001f3fd"),
    turns("e\u0301", "\u00e9", system="caf\u00e9"),
    turns("{{ messages }}", "{% if %}", "{# no #}"),
    turns("<|im_end|>\n<|im_start|>system\nno", "<|eot_id|>", "</s> [INST] [/INST]"),
    turns("quotes ' \" \\ \\n", "back\\slash"),
    turns("a\nb\n\nc\n", "\n\nd"),
    turns("x" * 300, "y" * 500),
    turns("<think>\nfirst\n</think>\n\nHi", "<think>\nlet me see\n</think>\n\nHello"),
    turns("Hi", "<think>a</think>b", "Again", "<think>\n\n</think>\n\nsure"),
    turns("Hi", "no thought</think>", system="think"),
    turns("<tool_response>1</tool_response>", "ok", "<tool_response>2</tool_response>"),
    turns("123", "45", "0"),
    turns("ab", "abc", "abcd", "abcde"),
    turns("ok", system=""),
    turns("ok", system="  padded system \n"),
    turns("&<>\"'", "&amp;"),
    [dict(role=SYSTEM, content="alone")],
    [dict(role=ASSISTANT, content="I begin.")],
    [dict(role=USER, content="one"), dict(role=USER, content="two")],
    [dict(role=USER, content="one"), dict(role=SYSTEM, content="late"),
     dict(role=ASSISTANT, content="two")],
    [dict(role=USER, content="q", name="Ann"), dict(role=ASSISTANT, content="a",
                                                    reasoning_content="because")],
    [dict(role=USER, content="call"),
     dict(role=ASSISTANT, content="", tool_calls=[dict(type="function", function=dict(
         name="add", arguments=dict(a=1, b=[2, "\u00e9"], c=None, d=True)))]),
     dict(role="tool", content="3"), dict(role="tool", content="4")],
    [],
]


def main():
    with open(FOLDER / "expected.jsonl", "w", encoding="utf-8") as out:
        for path in sorted(FOLDER.glob("*.jinja")):
            template = path.read_text(encoding="utf-8")
            for messages in CONVERSATIONS:
                for prompt in (False, True):
                    try:
                        rendered, _ = render_jinja_template(
                            conversations=[messages], chat_template=template,
                            add_generation_prompt=prompt, bos_token="<s>", eos_token="</s>")
                        text = rendered[0]
                    except Exception:
                        text = None
                    line = dict(template=path.name, messages=messages, prompt=prompt, text=text)
                    out.write(json.dumps(line, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
