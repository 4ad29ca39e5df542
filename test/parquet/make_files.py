#!/usr/bin/env python3
"""Writes files/*.parquet, with pyarrow 26.0, DuckDB 2.0 and Polars 2.1, and rows.jsonl, the rows that
each of them has (without the columns that a writer does not know)."""

import json
import pathlib

import duckdb
import polars
import pyarrow as pa
import pyarrow.parquet as pq

HERE = pathlib.Path(__file__).resolve().parent
FILES = HERE / "files"

texts = ["a", "bc", None, "", "naïve 走る 🙂", 'quote " backslash \\ tab \t line\n', "bell \x07",
         "the same start, one end", "the same start, another end", "x" * 300, "bc", "last"]
count = len(texts)
messages = [[{"content": "hi", "role": "user"}, {"content": "yo", "role": "assistant"}], [], None,
            [None], [{"content": None, "role": "system"}]]
lists = [[[1, None], []], None, [], [None, [2]], [[-2**62, 2**62]]]
table = pa.table({
    "text": pa.array(texts),
    "word": pa.array(["red", "green", None][i % 3] for i in range(count)),
    "messages": pa.array((messages[i % 5] for i in range(count)),
                         pa.list_(pa.struct([("content", pa.string()), ("role", pa.string())]))),
    "lists": pa.array((lists[i % 5] for i in range(count)), pa.list_(pa.list_(pa.int64()))),
    "small": pa.array((i * 77 - 300 for i in range(count)), pa.int32()),
    "unsigned": pa.array(((2**32 - 1) - i for i in range(count)), pa.uint32()),
    "double": pa.array(i / 8 - 0.5 for i in range(count)),
    "float": pa.array((i / 4 for i in range(count)), pa.float32()),
    "flag": pa.array([True, False, None][i % 3] for i in range(count)),
    "pair": pa.array((None if i == 3 else {"a": i, "b": None if i == 5 else "b"}
                      for i in range(count)), pa.struct([("a", pa.int64()), ("b", pa.string())])),
})
maps = pa.array(([(f"k{j}", j) for j in range(i % 3)] for i in range(count)),
                pa.map_(pa.string(), pa.int64()))

FILES.mkdir(exist_ok=True)
for old in FILES.glob("*.parquet"):
    old.unlink()


def write(name, **options):
    pq.write_table(table.append_column("map", maps), FILES / f"{name}.parquet", store_schema=False,
                   write_statistics=False, **options)


for codec in ("none", "snappy", "gzip", "zstd", "lz4"):
    write(f"{codec}-1", compression=codec, row_group_size=5)
    write(f"{codec}-2", compression=codec, data_page_version="2.0", write_page_checksum=True)
leaves = ("text", "word", "messages.list.element.content", "messages.list.element.role", "pair.b",
          "map.key_value.key")
numbers = {"lists.list.element.list.element": "DELTA_BINARY_PACKED", "small": "DELTA_BINARY_PACKED",
           "double": "BYTE_STREAM_SPLIT", "float": "BYTE_STREAM_SPLIT"}
for encoding in ("PLAIN", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY"):
    for version in ("1.0", "2.0"):
        write(f"{encoding.lower()}-{version[0]}", compression="none", data_page_version=version,
              use_dictionary=False, data_page_size=64, write_batch_size=3, write_page_checksum=True,
              column_encoding={**dict.fromkeys(leaves, encoding), **numbers})
duckdb.register("rows", table)
for version in ("V1", "V2"):
    duckdb.execute(f"copy rows to '{FILES}/duckdb-{version}.parquet' (format parquet, "
                   f"compression zstd, parquet_version {version})")
polars.from_arrow(table).write_parquet(FILES / "polars.parquet", compression="zstd",
                                       statistics=False, data_page_size=64)
with open(HERE / "rows.jsonl", "w", encoding="utf-8") as out:
    for row, keys in zip(table.to_pylist(), maps.to_pylist()):
        row["map"] = [{"key": key, "value": value} for key, value in keys]
        out.write(json.dumps(row, ensure_ascii=False) + "\n")
