#!/usr/bin/env bash
# gpt-preprocess train-tokenizer: both kinds, from text and JSON lines, and what it refuses.
. "$(dirname "$0")/common.sh"

make_text 5000 >corpus.txt
for kind in unigram bpe; do
  expect 0 "$tool" train-tokenizer --input corpus.txt --vocab-size 340 --model-prefix $kind \
    --model-type $kind
  says out "340 pieces"
  expect 0 "$tool" --input corpus.txt --documents file --tokenizer $kind.model --output-prefix $kind
  expect 0 "$tool" inspect ${kind}_text_document --tokenizer $kind.model --sample-tokens 10000000
  tail -n +"$(($(grep -n 'starts with' out | cut -d: -f1) + 1))" out | head -n 5999 >decoded
  head -n 5999 corpus.txt | cmp -s - decoded || fail "$kind: the decoded text differs"
done
expect 0 "$tool" train-tokenizer --input corpus.txt --vocab-size 340 --model-prefix again
same unigram.model again.model

awk 'BEGIN { RS = ""; FS = "\n" } { print "{\"text\": \"" $1 "\"}" }' corpus.txt >corpus.jsonl
expect 0 "$tool" train-tokenizer --input corpus.jsonl --vocab-size 330 --model-prefix json

expect 2 "$tool" train-tokenizer --input corpus.txt --vocab-size 100 --model-prefix no
expect 2 "$tool" train-tokenizer --input corpus.txt --vocab-size 100000 --model-prefix no
expect 2 "$tool" train-tokenizer --input corpus.txt --vocab-size many --model-prefix no
expect 2 "$tool" train-tokenizer --input corpus.txt --vocab-size 340 --model-prefix no \
  --model-type word
printf '\n\n' >blank.txt
expect 3 "$tool" train-tokenizer --input blank.txt --vocab-size 340 --model-prefix no
printf 'caf\351\n' >latin.txt
expect 3 "$tool" train-tokenizer --input latin.txt --vocab-size 340 --model-prefix no
says err "latin.txt:1"
nothing_left no

finish
