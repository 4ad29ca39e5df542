#!/usr/bin/env bash
# gpt-preprocess import gives the token files that gpt-preprocess --append-eod makes of the texts.
. "$(dirname "$0")/common.sh"

make_text 400 >corpus.txt
expect 0 "$tool" train-tokenizer --input corpus.txt --vocab-size 330 --model-prefix tok
expect 0 "$tool" --tokenizer tok.json --append-eod --input corpus.txt --documents line --output-prefix own
bin=own_text_document.bin
size=$(stat -c %s $bin)
import() { expect 0 "$tool" import --tokenizer tok.json --output-prefix got "$@"; }
refused() {
  local status=$1
  shift
  expect "$status" "$tool" import --tokenizer tok.json --output-prefix refused "$@"
  nothing_left refused
}
# number N: 4 bytes, the low one first.
number() { printf "$(printf '\\x%02x\\x%02x\\x%02x\\x%02x' $(($1 & 255)) $(($1 >> 8 & 255)) $(($1 >> 16 & 255)) $(($1 >> 24 & 255)))"; }
# header MAGIC VERSION IDS
header() { number "$1" && number "$2" && number "$3" && head -c 1012 /dev/zero; }
same_files() { for suffix in bin idx meta.json; do same own_text_document.$suffix got.$suffix; done; }

# nanoGPT: ids alone, each document ended. The last one may lack its end.
import --raw uint16 --input $bin
same_files
says out "wrote got.bin, .idx and .meta.json: 400 documents"
head -c -2 $bin >unended
import --raw uint16 --input unended
same_files
# llm.c: the end before each document, in shards that divide one.
{ tail -c 2 $bin; cat unended; } >stream
{ header 20240520 1 1001; head -c 2002 stream; } >a.bin
{ header 20240520 1 $((size / 2 - 1001)); tail -c +2003 stream; } >b.bin
import --input a.bin b.bin
same_files
# Its ids of 32 bits.
od -An -v -w2 -tx1 stream | awk '{ printf "\\x%s\\x%s\\x00\\x00", $1, $2 }' >escaped
{ header 20240801 7 $((size / 2)); printf "$(cat escaped)"; } >c.bin
import --input c.bin
same_files

refused 3 --input b.bin $bin
says err "$bin: has no header of llm.c; if it holds ids alone, as of nanoGPT, give their type with --raw"
refused 3 --raw uint16 --input a.bin
says err "a.bin: has the header of llm.c; leave out --raw"
{ header 20240520 2 3; printf 'abcdef'; } >d.bin
refused 3 --input d.bin
says err "d.bin: has version 2 of its format, but 1 is read"
for ids in 2 4 -1; do
  { header 20240520 1 $ids; printf 'abcdef'; } >d.bin
  refused 3 --input d.bin
  says err "d.bin: has 1030 bytes, but its header states $ids ids of 2 bytes"
done
{ header 20240522 1 3; printf 'abcdef'; } >d.bin
refused 3 --input d.bin
says err "d.bin: holds questions of llm.c, no text"
{ cat stream; printf '\x4a\x01'; } >d.bin
refused 3 --raw uint16 --input d.bin
says err "d.bin: id $((size / 2)) is 330, but the tokenizer has 330 pieces"
printf 'abc' >d.bin
refused 3 --raw uint16 --input d.bin
says err "d.bin: has 3 bytes, which is no multiple of 2"
: >d.bin
refused 3 --raw uint16 --input d.bin
says err "d.bin: has no ids"
refused 3 --raw uint16 --input none.bin
says err "none.bin: no such file"
refused 3 --raw uint16 --input <(cat $bin)
says err "not a regular file"
cp $bin refused.bin
expect 2 "$tool" import --tokenizer tok.json --raw uint16 --input refused.bin --output-prefix refused
says err "would overwrite refused.bin"
finish
