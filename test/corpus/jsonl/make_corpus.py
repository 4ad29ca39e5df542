#!/usr/bin/env python3
"""Makes the hostile JSON lines of this folder. In each file line 2 is the faulty one and lines 1 and 3
are good, unless the name says that the whole file is no JSON lines or has no third line."""
import os

FOLDER = os.path.dirname(os.path.abspath(__file__))
GOOD = b'{"text": "first"}\n'
LAST = b'{"text": "third"}\n'

LINES = {
    "array": b'["text"]',
    "bare_string": b'"text"',
    "control_character": b'{"text": "a\x01b"}',
    "deep": b'{"x": ' + b"[" * 5000 + b"]" * 5000 + b', "text": "a"}',
    "deep_objects": b'{"x":' * 5000 + b"1" + b"}" * 5000,
    "duplicate_key": b'{"text": "a", "text": "b"}',
    "lone_high_surrogate": b'{"text": "\\ud800"}',
    "lone_low_surrogate": b'{"text": "\\udc00 x"}',
    "missing_key": b'{"content": "a"}',
    "missing_quote": b'{"text": "a}',
    "nan": b'{"text": "a", "x": nan}',
    "nul_byte": b'{"text": "a"}\x00',
    "number": b'{"text": 7}',
    "null": b'{"text": null}',
    "object": b'{"text": {"text": "a"}}',
    "overlong_utf8": b'{"text": "\xc0\xaf"}',
    "single_quotes": b"{'text': 'a'}",
    "surrogate_utf8": b'{"text": "\xed\xa0\x80"}',
    "trailing_comma": b'{"text": "a",}',
    "trailing_text": b'{"text": "a"} {"text": "b"}',
    "two_lines_in_one": b'{"text": "a\\',
    "unquoted_key": b'{text: "a"}',
    "utf8_cut": b'{"text": "\xe2\x82"}',
    "utf8_latin1": b'{"text": "caf\xe9"}',
}

FILES = {
    "whole_gzip": b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03" + b"x" * 20,
    "whole_zstd": b"\x28\xb5\x2f\xfd\x04\x00" + b"x" * 20,
    "whole_utf16": '{"text": "a"}\n'.encode("utf-16"),
    "whole_empty": b"",
    "whole_blank": b"\n \n\r\n",
    "end_truncated": GOOD + b'{"text": "thi',
    "end_truncated_utf8": GOOD + b'{"text": "\xe2\x82',
}

if __name__ == "__main__":
    files = {name: GOOD + line + b"\n" + LAST for name, line in LINES.items()}
    for name, contents in {**files, **FILES}.items():
        with open(os.path.join(FOLDER, name + ".jsonl"), "wb") as file:
            file.write(contents)
