#!/usr/bin/env bash
# gpt-preprocess on Parquet files, and on folders of downloaded data sets. Fourth argument: MPIRUN.
. "$(dirname "$0")/common.sh"
mpirun=${4:-mpirun}
files=$here/../parquet/files
lines=$here/../parquet/rows.jsonl

make_text 300 >corpus.txt
expect 0 "$tool" train-tokenizer --input corpus.txt --vocab-size 300 --model-prefix tok
encode() { expect 0 "$tool" --tokenizer tok.json --append-eod "$@"; }
refused() {
  local status=$1
  shift
  expect "$status" "$tool" --tokenizer tok.json --output-prefix refused "$@"
  nothing_left refused
}
same_files() { for suffix in bin idx; do same "$1.$suffix" "$2.$suffix"; done; }

# Rows are what the same JSON lines are: texts, conversations, a tokenizer's corpus.
encode --input "$lines" --output-prefix lines --on-error skip
for file in snappy-1 zstd-2 delta_byte_array-1 duckdb-V2 polars; do
  encode --input "$files/$file.parquet" --output-prefix rows --on-error skip
  same_files lines_text_document rows_text_document
  says err "$file.parquet: row 2: skipped: the value of 'text' must be a string"
  says out "11 documents"
done
# Many workers have several threads read row groups ahead; faults keep their order.
encode --input "$files/snappy-1.parquet" "$files/zstd-1.parquet" --output-prefix rows --on-error skip --workers 24
says err "zstd-1.parquet: row 2: skipped: the value of 'text' must be a string"
encode --input "$lines" "$lines" --output-prefix twice --on-error skip
same_files twice_text_document rows_text_document
cp "$files/zstd-2.parquet" UPPER.PARQUET
encode --input UPPER.PARQUET --json-key word --output-prefix word --on-error skip
encode --input "$lines" --json-key word --output-prefix word_lines --on-error skip
same_files word_lines_word_document word_word_document
chat() { expect 0 "$tool" chat --tokenizer tok.json --template chatml --on-error skip "$@"; }
chat --input "$lines" --output-prefix chat_lines
grep '^warning\|not read' err out | sed 's/^[^:]*://' | grep -v "rows.jsonl:" >lines_said
chat --input UPPER.PARQUET --output-prefix chat
grep '^warning\|not read' err out | sed 's/^[^:]*://' | grep -v "UPPER.PARQUET: row" >rows_said
same lines_said rows_said
[ -s rows_said ] || fail "chat said nothing of the keys that it did not read"
for suffix in bin idx mask; do same chat_lines_text_document.$suffix chat_text_document.$suffix; done
expect 0 "$tool" train-tokenizer --input UPPER.PARQUET --on-error skip --vocab-size 260 --model-prefix from_rows
expect 0 "$tool" train-tokenizer --input "$lines" --on-error skip --vocab-size 260 --model-prefix from_lines
same from_lines.json from_rows.json

# Other names of JSON lines.
for name in a.ndjson a.JSONL a.jsonlines; do
  cp "$lines" "$name"
  encode --input "$name" --output-prefix named --on-error skip
  same_files lines_text_document named_text_document
done

# Mistakes are refused before any work.
refused 3 --input "$files/zstd-2.parquet"
says err "zstd-2.parquet: row 2: the value of 'text' must be a string; repair it"
refused 3 --input "$files/zstd-2.parquet" --json-key body
says err "zstd-2.parquet: has no column 'body'; its columns with text are 'text', 'word': choose one"
refused 3 --input <(cat UPPER.PARQUET) --format jsonl
says err "this is a Parquet file; let its name end in .parquet"
mkfifo pipe.parquet
refused 3 --input pipe.parquet
says err "pipe.parquet: Parquet cannot be read from a pipe"
printf 'text' >no.parquet
refused 3 --input no.parquet
says err "no.parquet: named .parquet, but not a Parquet file"
head -c 2000 UPPER.PARQUET >cut.parquet
refused 3 --input cut.parquet
says err "cut.parquet: a Parquet file that is cut off"
{ head -c 60 UPPER.PARQUET; printf 'damage'; tail -c +67 UPPER.PARQUET; } >damaged.parquet
refused 3 --input damaged.parquet --on-error skip
says err "damaged.parquet: row group 0, column text, page 0: the checksum of the page is wrong"

# A folder as its card divides it; what was not downloaded does not count.
mkdir -p set/data/A set/sample/10BT
cp "$files/snappy-1.parquet" set/sample/10BT/000.parquet
cp "$files/zstd-2.parquet" set/sample/10BT/001.parquet
cat >set/README.md <<'EOF'
---
license: odc-by
tags: [a, b]
configs:
- config_name: default
  default: true
  data_files:
  - split: train
    path: data/*/*
- config_name: sample-10BT
  data_files:
  - split: train
    path: sample/10BT/*
- config_name: chat
  data_files:
  - {split: train_sft, path: [chat/train-*]}
  - {split: test_sft, path: "chat/test-[0-9].parquet"}
---
# A data set
EOF
encode --input "$lines" "$lines" --output-prefix twice --on-error skip
encode --input set/ --output-prefix set --on-error skip
same_files twice_text_document set_text_document
cp "$files/polars.parquet" set/data/A/1.parquet
encode --input set --output-prefix set --on-error skip
says out "set: reads subset default: 1 of 3 files"
same_files lines_text_document set_text_document
encode --input set --output-prefix set --on-error skip --subset sample-10BT
says out "set: reads subset sample-10BT: 2 of 3 files"
same_files twice_text_document set_text_document
mkdir set/chat
cp UPPER.PARQUET set/chat/train-0.parquet
cp UPPER.PARQUET set/chat/test-0.parquet
refused 2 --input set --subset chat
says err "set: has the splits test_sft, train_sft; choose one with --split, or all"
encode --input set --subset chat --split test_sft --output-prefix set --on-error skip
says out "set: reads subset chat split test_sft: 1 of 5 files"
encode --input set --subset chat --split all --output-prefix set --on-error skip
same_files twice_text_document set_text_document
refused 2 --input set --subset none
says err "set: has no subset none; its subsets are chat, default, sample-10BT"
refused 2 --input set --subset chat --split dev
says err "set: has no split dev; its splits are test_sft, train_sft"
refused 2 --input UPPER.PARQUET --split train
says err "--split chooses files of a folder, but no input is one"
printf -- '---\nconfigs:\n- data_files: x\n---\n' >set/README.md
refused 3 --input set
says err "set/README.md:3:3: a config without config_name; name the files themselves"
# Without a card, by names, if all have one; as the library datasets caches them, through links.
rm set/README.md
mv set blobs
mkdir -p snapshot/data
ln -s ../../blobs/chat/train-0.parquet snapshot/data/train-00000-of-00002.parquet
ln -s ../../blobs/sample/10BT/000.parquet snapshot/data/train-00001-of-00002.parquet
printf '{}\n' >snapshot/data/dataset_info.json
encode --input snapshot --output-prefix set --on-error skip
same_files twice_text_document set_text_document
cp "$lines" snapshot/data/validation-00000-of-00001.jsonl
refused 2 --input snapshot
says err "snapshot: has the splits train, validation; choose one with --split, or all"
encode --input snapshot --split validation --output-prefix set --on-error skip
same_files lines_text_document set_text_document
mkdir words
cp "$lines" words/c4-dev.0.jsonl
cp UPPER.PARQUET words/c4-train.0.parquet
encode --input words --split validation --output-prefix set --on-error skip
says out "words: reads split validation: 1 of 2 files"
cp corpus.txt words/notes.txt
encode --input words --output-prefix set --on-error skip
says_not out "reads"
refused 2 --input words --split train
says err "words: --split train: its files have no splits"
mkdir saved
printf 'x' >saved/data-00000-of-00001.arrow
refused 3 --input saved
says err "write its .arrow files as Parquet"

# Ranks share the row groups of a file.
if command -v "$mpirun" >/dev/null; then
  . "$here/../openmpi.sh"
  encode --input "$files/snappy-1.parquet" "$lines" "$files/gzip-1.parquet" --output-prefix one --on-error skip
  for ranks in 2 5; do
    expect 0 "$mpirun" -n $ranks "$tool" --tokenizer tok.json --append-eod --on-error skip \
      --input "$files/snappy-1.parquet" "$lines" "$files/gzip-1.parquet" --output-prefix several
    same_files one_text_document several_text_document
  done
fi
finish
