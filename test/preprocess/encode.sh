#!/usr/bin/env bash
# gpt-preprocess on good input: every way to the same tokens gives the same bytes.
. "$(dirname "$0")/common.sh"

make_text 30000 >corpus.txt
expect 0 "$tool" train-tokenizer --type unigram --input corpus.txt --vocab-size 350 --model-prefix tok
encode() { expect 0 "$tool" --tokenizer tok.model "$@"; }

# Any number of workers.
encode --input corpus.txt --output-prefix w1 --append-eod --workers 1
says out "6000 documents"
for workers in 2 5; do
  encode --input corpus.txt --output-prefix w$workers --append-eod --workers $workers
  same w1_text_document.bin w${workers}_text_document.bin
  same w1_text_document.idx w${workers}_text_document.idx
done

# JSON lines of the same documents: from a file, with another key, from several files and from a
# pipe.
awk 'BEGIN { RS = ""; FS = "\n" } {
  printf "{\"id\": %d, \"meta\": {\"text\": [1, null]}, \"text\": \"", NR
  for (i = 1; i <= NF; i++) printf "%s%s", (i > 1 ? "\\n" : ""), $i
  print "\"}"
}' corpus.txt >corpus.jsonl
encode --input corpus.jsonl --output-prefix j --append-eod
same w1_text_document.bin j_text_document.bin
same w1_text_document.idx j_text_document.idx
sed 's/"text": "/"body": "/' corpus.jsonl >body.json
encode --input body.json --json-key body --output-prefix j --append-eod
same w1_text_document.bin j_body_document.bin
printf '{"../a/b": "and"}\n' >slash.jsonl
encode --input slash.jsonl --json-key ../a/b --output-prefix slash
[ -s slash_.._a_b_document.idx ] || fail "a key with slashes: $(ls -d slash*)"
head -n 2500 corpus.jsonl >a.jsonl
tail -n +2501 corpus.jsonl >b.jsonl
encode --input a.jsonl b.jsonl --output-prefix ab --append-eod --workers 3
same w1_text_document.idx ab_text_document.idx
encode --format jsonl --input <(cat corpus.jsonl) --output-prefix pipe --append-eod
same w1_text_document.bin pipe_text_document.bin

# From standard input, and from a folder: its corpus files in the order of their paths.
encode --format jsonl --input - --output-prefix stdin --append-eod <corpus.jsonl
same w1_text_document.bin stdin_text_document.bin
mkdir -p folder/b folder/none
cp a.jsonl folder
gzip -c b.jsonl >folder/b/part.jsonl.gz
echo "not text" >folder/README.md
encode --input folder --output-prefix folder --append-eod
same w1_text_document.bin folder_text_document.bin
same w1_text_document.idx folder_text_document.idx
expect 3 "$tool" --tokenizer tok.model --input folder/none --output-prefix none
says err "folder/none: a folder without a .parquet, .txt, .json or .jsonl file"
nothing_left none

# In a folder it leaves out the tokenizer, the companions of token files, hidden folders and other
# endings, which it counts. It follows links, into each folder once.
mkdir -p linked/a/.ipynb_checkpoints elsewhere/deep
cp a.jsonl linked/a
cp a.jsonl linked/a/.ipynb_checkpoints/copy.jsonl
cp b.jsonl elsewhere/deep
ln -s ../elsewhere linked/c
ln -s .. linked/a/up
ln -s ../linked/a elsewhere/again
cp a_text_document.meta.json linked 2>/dev/null || echo '{}' >linked/x.meta.json
echo 1 >linked/UPPER.PDF
echo 1 >linked/one.html
echo 1 >linked/two.html
echo 1 >linked/README
printf '\0\1' >linked/._a.jsonl
gzip -c corpus.txt >linked/table.csv.gz
encode --input linked --output-prefix linked --append-eod
same w1_text_document.bin linked_text_document.bin
says out "linked: leaves out the files with other endings: 1 without an ending, 1 .PDF, 1 .csv.gz, 2 .html, 1 .meta.json, 1 hidden"
[ ! -s err ] || fail "a warning: $(cat err)"
ln -s nowhere linked/gone.jsonl
expect 3 "$tool" --tokenizer tok.model --input linked --output-prefix none
says err "linked/gone.jsonl: no such file"
rm linked/gone.jsonl
mkfifo linked/pipe.txt
expect 3 "$tool" --tokenizer tok.model --input linked --output-prefix none
says err "linked/pipe.txt: not a regular file"
nothing_left none
mkdir with_tokenizer
cp a.jsonl with_tokenizer
expect 0 "$tool" train-tokenizer --input with_tokenizer --vocab-size 300 --model-prefix with_tokenizer/tok
cp with_tokenizer/tok.json with_tokenizer/tokenizer.json
echo '#version: 0.2' >with_tokenizer/merges.txt
echo '{}' | tee with_tokenizer/tokenizer_config.json >with_tokenizer/config.json
mv with_tokenizer/tok.json other_tok.json
for tokenizer in with_tokenizer with_tokenizer/tokenizer.json; do
    expect 0 "$tool" --input with_tokenizer --tokenizer "$tokenizer" --output-prefix shared
    says out "wrote" " from $(wc -l <a.jsonl) documents"
done
mv other_tok.json with_tokenizer/tok.json
rm with_tokenizer/merges.txt with_tokenizer/tokenizer_config.json with_tokenizer/config.json
expect 3 "$tool" --input with_tokenizer --tokenizer with_tokenizer/tok.json --output-prefix none
says err "with_tokenizer/tokenizer.json"
rm with_tokenizer/tokenizer.json
expect 0 "$tool" --input with_tokenizer --tokenizer with_tokenizer/tok.json --output-prefix with_tokenizer/a
expect 0 "$tool" --input with_tokenizer --tokenizer with_tokenizer/tok.json --output-prefix with_tokenizer/a
mv with_tokenizer/tok.json with_tokenizer/tokenizer.json
expect 0 "$tool" --input with_tokenizer --tokenizer with_tokenizer --output-prefix with_tokenizer/a
says out "2500 documents"

# A file that is read twice, whatever its paths, and a compressed copy of one cost a warning.
encode --input a.jsonl b.jsonl a.jsonl --output-prefix none
says err "warning: --input: a.jsonl is read twice"
mkdir twice
cp a.jsonl twice
ln -s ../b.jsonl twice
encode --input b.jsonl twice --output-prefix none
says err "warning: --input: twice/b.jsonl is read twice, also as b.jsonl"
gzip -k twice/a.jsonl
encode --input twice --output-prefix twice
says err "warning: reading both twice/a.jsonl and twice/a.jsonl.gz: if they hold the same text"
encode --input twice/a.jsonl.gz b.jsonl --output-prefix twice --append-eod
[ ! -s err ] || fail "a warning: $(cat err)"
same w1_text_document.bin twice_text_document.bin

# Gzipped files with one member or several, recognised by name or content.
gzip -k corpus.jsonl
encode --input corpus.jsonl.gz --output-prefix gz --append-eod
same w1_text_document.bin gz_text_document.bin
{ gzip -c a.jsonl; gzip -c b.jsonl; head -c 512 /dev/zero; } >members
encode --format jsonl --input members --output-prefix members --append-eod
same w1_text_document.idx members_text_document.idx
encode --format jsonl --input <(cat members) --output-prefix packed_pipe --append-eod
same w1_text_document.bin packed_pipe_text_document.bin

# The same with zstd: frames of zstd and pzstd, without a checksum, and one that asks for a window
# of 128 MiB.
zstd -q -k -19 --no-check corpus.jsonl
encode --input corpus.jsonl.zst --output-prefix zst --append-eod
same w1_text_document.bin zst_text_document.bin
{ printf 'P*M\030\004\0\0\0abcd'; zstd -q -c a.jsonl; zstd -q -c -19 --long=27 <b.jsonl; } >frames
encode --format jsonl --input frames --output-prefix frames --append-eod
same w1_text_document.idx frames_text_document.idx
encode --format jsonl --input <(cat frames) --output-prefix frame_pipe --append-eod
same w1_text_document.bin frame_pipe_text_document.bin
mkdir zipped
mv corpus.jsonl.zst zipped
encode --input zipped --output-prefix zipped --append-eod
same w1_text_document.bin zipped_text_document.bin

# CRLF and a byte order mark change nothing.
{ printf '\357\273\277'; sed 's/$/\r/' corpus.txt; } >windows.txt
encode --input windows.txt --output-prefix crlf --append-eod
same w1_text_document.bin crlf_text_document.bin

# Documents that are lines or the whole file; an empty text is a document without tokens.
encode --input corpus.txt --documents line --output-prefix line
says out "30000 documents"
says out "no end-of-document id was appended; with --append-eod each document ends in one"
encode --input corpus.txt --documents line --output-prefix line_ends --append-eod
! grep -q -- --append-eod out || fail "a hint at what was given: $(cat out)"
encode --input corpus.txt --documents file --output-prefix file
says out "1 documents"
expect 0 "$tool" inspect file_text_document --tokenizer tok.model
says out "$(head -n 1 corpus.txt)"
printf '{"text": ""}\n{"text": "and"}\n{"text": ""}\n' >empty.jsonl
encode --input empty.jsonl --output-prefix empty --append-eod
expect 0 "$tool" inspect empty_text_document
says out "3 documents, 1 sequences"

# Files without a document cost one warning.
mkdir hollow
cp corpus.txt hollow
: >hollow/a.jsonl
printf '\n \n' >hollow/b.txt
gzip -c </dev/null >hollow/c.jsonl.gz
: >hollow/d.jsonl
encode --input hollow --output-prefix hollow --append-eod
same w1_text_document.bin hollow_text_document.bin
[ "$(cat err)" = "warning: 4 input files hold no document: hollow/a.jsonl, hollow/b.txt, hollow/c.jsonl.gz, ..." ] ||
  fail "it says: $(cat err)"
expect 0 "$tool" train-tokenizer --input hollow/a.jsonl corpus.txt --vocab-size 300 --model-prefix hollow
says err "warning: 1 input file holds no document: hollow/a.jsonl"

# merge gives the same bytes as encoding everything at once, and as Megatron's merge.
encode --input a.jsonl --output-prefix a --append-eod
encode --input b.jsonl --output-prefix b --append-eod
expect 0 "$tool" merge --input a_text_document b_text_document --output-prefix merged
same w1_text_document.bin merged.bin
same w1_text_document.idx merged.idx
expect 0 "$tool" merge --input "$here/megatron/u16" "$here/megatron/other_u16" --output-prefix m
same m.bin "$here/megatron/merged_u16.bin"
same m.idx "$here/megatron/merged_u16.idx"
nothing_left m.meta
expect 3 "$tool" merge --input "$here/megatron/u16" "$here/megatron/i32" --output-prefix mixed
nothing_left mixed

# .meta.json records how the files were made; merge carries it over if all inputs have one.
expect 0 "$tool" train-tokenizer --type unigram --input corpus.txt --vocab-size 340 --model-prefix tok2
grep -q '"tokenizer":{"file":"tok.model","crc32c":[0-9]*,"vocab_size":350},"append_eod":true,"documents":6000,' \
  w1_text_document.meta.json || fail "it says: $(cat w1_text_document.meta.json)"
same w1_text_document.meta.json merged.meta.json
expect 0 "$tool" inspect merged
says out "made with tok.model (CRC-32C "
says out ", 350 pieces, with end-of-document ids, by gptrain "
expect 2 "$tool" inspect merged --tokenizer tok2.model
says err "tok.model"
expect 0 "$tool" --tokenizer tok2.model --input b.jsonl --output-prefix two
expect 3 "$tool" merge --input a_text_document two_text_document --output-prefix mixed
says err "cannot merge files from different tokenizers"
nothing_left mixed
encode --input b.jsonl --output-prefix noeod
expect 0 "$tool" merge --input a_text_document noeod_text_document --output-prefix merged
says merged.meta.json '"append_eod":false'
says out "noeod_text_document: has no end-of-document ids, but a_text_document has them"
rm b_text_document.meta.json
expect 0 "$tool" merge --input a_text_document b_text_document --output-prefix merged
says out "b_text_document: no .meta.json"
nothing_left merged.meta
same w1_text_document.bin merged.bin

# inspect: counts, histogram, a decoded sample.
expect 0 "$tool" inspect w1_text_document --tokenizer tok.model --document 1
says out "6000 documents, 6000 sequences"
says out "tokens per document"
says out "$(sed -n 7p corpus.txt)"
expect 2 "$tool" inspect w1_text_document --document 6000
expect 3 "$tool" inspect missing
for suffix in bin idx; do
  expect 3 "$tool" inspect w1_text_document.$suffix
  says err "w1_text_document.$suffix: give the prefix without .$suffix: w1_text_document"
done
# An id that the tokenizer lacks is named with its place.
expect 0 "$tool" merge --input w1_text_document --output-prefix foreign
rm foreign.meta.json
expect 0 "$tool" inspect foreign --document 2 --sample-tokens 5
printf '\377\377' | dd of=foreign.bin bs=1 seek=6 conv=notrunc status=none
expect 3 "$tool" inspect foreign --tokenizer tok.model
says err "foreign.bin: document 0, token 3: id 65535 is outside the tokenizer's vocabulary of 350"
# Control characters of a document do not reach a terminal, and its special tokens are shown.
printf '{"text": "\\u001b]0;title\\u0007\\u001b[31mred"}\n' >escapes.jsonl
expect 0 "$tool" --tokenizer with_tokenizer/tokenizer.json --input escapes.jsonl --output-prefix escapes --append-eod
expect 0 "$tool" inspect escapes_text_document --tokenizer with_tokenizer/tokenizer.json
says out '\x1b]0;title\x07\x1b[31mred<|endoftext|>'
! LC_ALL=C grep -q "[$(printf '\033\007')]" out || fail "control characters: $(cat -v out)"
# A document that spells the end of document is counted.
printf '{"text": "a<|endoftext|>b"}\n{"text": "a"}\n' >ends.jsonl
expect 0 "$tool" --tokenizer with_tokenizer/tokenizer.json --input ends.jsonl --output-prefix ends --append-eod
says err "warning: 1 document has the end-of-document token inside"
says err "remove its spelling from the text"
expect 0 "$tool" --tokenizer with_tokenizer/tokenizer.json --input ends.jsonl --output-prefix ends
[ ! -s err ] || fail "a warning without --append-eod: $(cat err)"

# A prefix in a folder that does not exist yet.
encode --input a.jsonl --output-prefix new/folder/a
[ -s new/folder/a_text_document.idx ] || fail "no output in a new folder"

finish
