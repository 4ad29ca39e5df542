#!/usr/bin/env bash
# gpt-preprocess train-tokenizer: every kind, from text and JSON lines, and what it refuses.
. "$(dirname "$0")/common.sh"

make_text 5000 >corpus.txt
train() {
  local status=$1
  shift
  expect "$status" "$tool" train-tokenizer "$@"
}
for kind in byte-bpe bpe unigram; do
  train 0 --input corpus.txt --vocab-size 340 --model-prefix $kind --type $kind
  says out "340 pieces"
  file=$(ls $kind.*)
  expect 0 "$tool" --input corpus.txt --documents file --tokenizer "$file" --output-prefix $kind
  expect 0 "$tool" inspect ${kind}_text_document --tokenizer "$file" --sample-tokens 10000000
  tail -n +"$(($(grep -n 'starts with' out | cut -d: -f1) + 1))" out | head -n 5999 >decoded
  head -n 5999 corpus.txt | cmp -s - decoded || fail "$kind: the decoded text differs"
done
[ -s byte-bpe.json ] && [ -s bpe.model ] && [ -s unigram.model ] || fail "the files are: $(ls)"
# Byte-level BPE is the default; an option's older name works.
train 0 --input corpus.txt --vocab-size 340 --model-prefix again
same byte-bpe.json again.json
train 0 --input corpus.txt --vocab-size 340 --model-prefix again --model-type unigram
same unigram.model again.model

awk 'BEGIN { RS = ""; FS = "\n" } { print "{\"text\": \"" $1 "\"}" }' corpus.txt >corpus.jsonl
train 0 --input corpus.jsonl --vocab-size 330 --model-prefix json
train 0 --input corpus.jsonl --vocab-size 330 --model-prefix json --type unigram

for kind in byte-bpe unigram; do
  train 2 --input corpus.txt --vocab-size 100 --model-prefix no --type $kind
  train 2 --input corpus.txt --vocab-size 100000 --model-prefix no --type $kind
  train 2 --input corpus.txt --vocab-size many --model-prefix no --type $kind
  printf '\n\n' >blank.txt
  train 3 --input blank.txt --vocab-size 340 --model-prefix no --type $kind
  printf 'caf\351\n' >latin.txt
  train 3 --input latin.txt --vocab-size 340 --model-prefix no --type $kind
  says err "latin.txt:1"
done
train 2 --input corpus.txt --vocab-size 340 --model-prefix no --type word
train 2 --input corpus.txt --vocab-size 340 --model-prefix no --max-lines 1000
says err "--max-lines applies to --type bpe and unigram"
nothing_left no

# It never overwrites its corpus, given by name, through a link, on stdin or in a folder.
mkdir data
cp corpus.jsonl data/stories.json
ln -s data/stories.json link.json
cp corpus.jsonl before
refused() {
  train 2 --vocab-size 330 "$@"
  says err "would overwrite"
  same before data/stories.json
}
refused --input data/stories.json --model-prefix data/stories
refused --input corpus.txt link.json --format jsonl --model-prefix data/stories
refused --input data --model-prefix data/stories
refused --input - --format jsonl --model-prefix data/stories <data/stories.json
cp corpus.txt a_text_document.idx
expect 2 "$tool" --input a_text_document.idx --tokenizer byte-bpe.json --output-prefix a
says err "would overwrite a_text_document.idx, which is an input"
same corpus.txt a_text_document.idx

# What cannot be written shows before the corpus is read.
mkdir taken.json.tmp
yes '{"text": "endless"}' 2>/dev/null | timeout 60 "$tool" train-tokenizer --input - --format jsonl \
  --vocab-size 300 --model-prefix taken >out 2>err
[ "${PIPESTATUS[1]}" = 5 ] || fail "an output that cannot be written: $(cat err)"
says err "taken.json.tmp: Is a directory"

finish
