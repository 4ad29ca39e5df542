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

# A word of any length counts: a line of DNA, and one without a space in a script of long
# characters.
awk 'BEGIN { s = 1; for (i = 0; i < 60000; i++) { s = (s * 16807) % 2147483647; printf "%s", substr("ACGT", 1 + s % 4, 1) } }' >dna.txt
train 0 --input dna.txt --vocab-size 400 --model-prefix dna
says out "400 pieces"
expect 0 "$tool" --input dna.txt --tokenizer dna.json --output-prefix dna
tokens=$(sed -n 's/.* documents, \([0-9]*\) tokens.*/\1/p' out)
[ "$tokens" -lt 20000 ] || fail "60,000 letters are $tokens tokens"
for i in $(seq 400); do printf '\344\275\240\345\245\275'; done >wide.txt
train 0 --input wide.txt --vocab-size 262 --model-prefix wide
says out "262 pieces"

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

# An output that cannot be written is noticed before the corpus is read.
mkdir taken.json.tmp
yes '{"text": "endless"}' 2>/dev/null | timeout 60 "$tool" train-tokenizer --input - --format jsonl \
  --vocab-size 300 --model-prefix taken >out 2>err
[ "${PIPESTATUS[1]}" = 5 ] || fail "an output that cannot be written: $(cat err)"
says err "taken.json.tmp: Is a directory"

finish
