#!/usr/bin/env python3
"""Files of pyarrow, DuckDB and Polars, with every codec, encoding and version of pages that gptrain
reads: gpt-preprocess makes the same token files of them as of the same rows as JSON lines.

    pip install pyarrow==26.0.1 duckdb==2.0.1 polars==2.1.0
    test/peers/parquet.py

The rows are random: texts, conversations, and lists, structs and numbers of every type, which a chat
template spells out.
"""

import json
import random

import duckdb
import polars
import pyarrow as pa
import pyarrow.parquet as pq

import support

ROWS = 2000
WORDS = ("the", "earth", "without", "form", "naïve", "走る", "🙂", '"quoted"', "back\\slash", "tab\t",
         "line\n", "bell\x07", "")
TEMPLATE = ("{% for m in messages %}{{ m.role }}: {% generation %}{{ m.content }}{% endgeneration %}\n"
            "{% endfor %}{{ documents | tojson }}")
LEAVES = ("text", "messages.list.element.content", "messages.list.element.role",
          "documents.list.element.name")
NUMBERS = {"documents.list.element.small": "DELTA_BINARY_PACKED",
           "documents.list.element.large": "DELTA_BINARY_PACKED",
           "documents.list.element.lists.list.element.list.element": "DELTA_BINARY_PACKED",
           "documents.list.element.real": "BYTE_STREAM_SPLIT",
           "documents.list.element.half": "BYTE_STREAM_SPLIT"}


def make_rows(rng):
    def text(most):
        return " ".join(rng.choice(WORDS) for _ in range(rng.randint(0, most)))

    def maybe(value):
        return None if rng.random() < 0.2 else value

    def document():
        return {"name": maybe(text(3)), "small": maybe(rng.randint(-2**31, 2**31 - 1)),
                "large": maybe(rng.randint(-2**63, 2**63 - 1)), "unsigned": rng.randint(0, 2**32 - 1),
                "real": rng.choice([rng.random(), rng.random() * 1e300, -0.5, 3.0]),
                "half": rng.randint(-99, 99) / 8, "flag": maybe(rng.random() < 0.5),
                "lists": maybe([maybe([maybe(rng.randint(-9, 9)) for _ in range(rng.randint(0, 3))])
                                for _ in range(rng.randint(0, 3))])}

    def message(role):
        return {"content": text(20) + ".", "role": role}

    return [{"text": maybe(text(300)),
             "messages": [message(role) for _ in range(rng.randint(1, 3))
                          for role in ("user", "assistant")],
             "documents": [maybe(document()) for _ in range(rng.randint(1, 3))]}
            for _ in range(ROWS)]


def make_table(rows):
    message = pa.struct([("content", pa.string()), ("role", pa.string())])
    document = pa.struct([("name", pa.string()), ("small", pa.int32()), ("large", pa.int64()),
                          ("unsigned", pa.uint32()), ("real", pa.float64()), ("half", pa.float32()),
                          ("flag", pa.bool_()), ("lists", pa.list_(pa.list_(pa.int64())))])
    schema = pa.schema([("text", pa.string()), ("messages", pa.list_(message)),
                        ("documents", pa.list_(document))])
    return pa.Table.from_pylist(rows, schema=schema)


def write_pyarrow(table, work):
    for codec in ("none", "snappy", "gzip", "zstd", "lz4"):
        for version in ("1.0", "2.0"):
            for encoding in ("dictionary", "PLAIN", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY"):
                path = work / f"pyarrow-{codec}-{version}-{encoding}.parquet"
                options = {"use_dictionary": True}
                if encoding != "dictionary":
                    options = {"use_dictionary": False,
                               "column_encoding": {**dict.fromkeys(LEAVES, encoding), **NUMBERS}}
                pq.write_table(table, path, compression=codec, data_page_version=version,
                               data_page_size=8192, row_group_size=700, write_page_checksum=True,
                               dictionary_pagesize_limit=16384, **options)
                yield path
    path = work / "pyarrow-chunks.parquet"
    pq.write_table(table, path, use_content_defined_chunking=True, write_page_index=True)
    yield path


def write_duckdb(table, work):
    connection = duckdb.connect()
    connection.register("rows", table)
    for codec in ("uncompressed", "snappy", "gzip", "zstd", "lz4_raw"):
        for version in ("V1", "V2"):
            path = work / f"duckdb-{codec}-{version}.parquet"
            connection.execute(f"copy rows to '{path}' (format parquet, compression {codec}, "
                               f"parquet_version {version}, row_group_size 2048)")
            yield path
    connection.execute(f"copy rows to '{work}/brotli.parquet' (format parquet, compression brotli)")


def write_polars(table, work):
    frame = polars.from_arrow(table)
    for codec in ("uncompressed", "snappy", "gzip", "zstd", "lz4"):
        path = work / f"polars-{codec}.parquet"
        frame.write_parquet(path, compression=codec, row_group_size=600, data_page_size=8192)
        yield path


def token_files(proof, path):
    """The bytes of the token files of texts and of conversations."""
    options = ("--input", path, "--tokenizer", "tok.json", "--on-error", "skip")
    proof.run(proof.preprocess, *options, "--output-prefix", "texts")
    proof.run(proof.preprocess, "chat", *options, "--template", "all.jinja", "--output-prefix", "chat")
    return [(proof.work / f"{name}_text_document.{suffix}").read_bytes()
            for name, suffixes in (("texts", ("bin", "idx")), ("chat", ("bin", "idx", "mask")))
            for suffix in suffixes]


def prove(proof):
    rows = make_rows(random.Random(1))
    table = make_table(rows)
    lines = proof.work / "rows.jsonl"
    with open(lines, "w", encoding="utf-8") as out:
        for row in table.to_pylist():
            out.write(json.dumps(row, ensure_ascii=False) + "\n")
    (proof.work / "all.jinja").write_text(TEMPLATE, encoding="utf-8")
    proof.run(proof.preprocess, "train-tokenizer", "--input", lines, "--on-error", "skip",
              "--vocab-size", 300, "--model-prefix", "tok")
    expected = token_files(proof, lines)
    for writer, name in ((write_pyarrow, "pyarrow"), (write_duckdb, "duckdb"),
                         (write_polars, "polars")):
        different = []
        count = 0
        for path in writer(table, proof.work):
            count += 1
            if token_files(proof, path) != expected:
                different.append(path.name)
        proof.claim(not different, f"files of {support.versions(name)} give the token files of JSON "
                    "lines", f"{count - len(different)} of {count} {' '.join(different)}".strip())
    refused = False
    try:
        token_files(proof, proof.work / "brotli.parquet")
    except RuntimeError as error:
        refused = "Brotli" in str(error) and str(error).startswith("exit code 3")
    proof.claim(refused, "Brotli is refused by name", "exit code 3" if refused else "accepted")


if __name__ == "__main__":
    support.main("parquet", __doc__, prove)
