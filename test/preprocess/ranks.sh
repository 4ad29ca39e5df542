#!/usr/bin/env bash
# gpt-preprocess on several ranks writes the files of one process. Fourth argument: MPIRUN.
. "$(dirname "$0")/common.sh"
mpirun=${4:-mpirun}
command -v "$mpirun" >/dev/null || { echo "not run: there is no $mpirun"; exit 77; }
. "$here/../openmpi.sh"

make_text 8000 >corpus.txt
expect 0 "$tool" train-tokenizer --input corpus.txt --vocab-size 330 --model-prefix tok
# Files of several kinds and sizes; three of them hold no document, the last one among them.
mkdir in
head -n 3000 corpus.txt >in/a.txt
: >in/b.txt
awk 'NF { printf "{\"text\": \"%s\"}\n", $0 } NR % 90 == 0 { print "{\"text\": \"\"}" }' \
  <(sed -n 3001,4000p corpus.txt) | zstd -q >in/c.jsonl.zst
printf '\n\n' >in/d.txt
sed -n 4001,7000p corpus.txt | gzip >in/e.txt.gz
tail -n +7001 corpus.txt >in/f.txt
: >in/g.txt

# on RANKS STATUS OPTION...: gpt-preprocess on that many ranks.
on() {
  local ranks=$1 status=$2
  shift 2
  expect "$status" "$mpirun" -n "$ranks" "$tool" --tokenizer tok.json --append-eod "$@"
}
same_files() {
  local suffix
  for suffix in bin idx meta.json; do same "$1_text_document.$suffix" "$2_text_document.$suffix"; done
}

expect 0 "$tool" --tokenizer tok.json --append-eod --input in --output-prefix one
for ranks in 1 2 3 4 9; do
  on $ranks 0 --input in --output-prefix "ranks$ranks"
  same_files one "ranks$ranks"
  [ "$(grep -c "^wrote ranks$ranks" out)" = 1 ] || fail "not one summary line: $(cat out)"
  [ "$(cat err)" = "warning: 3 input files hold no document: in/b.txt, in/d.txt, in/g.txt" ] ||
    fail "on stderr: $(head -c 300 err)"
  nothing_left "ranks${ranks}_text_document.*\(tmp\|rank\)"
done
# The parts of a killed run with more ranks go; parts that a process has locked, and other files,
# stay.
for suffix in bin idx documents mask; do echo part >"gone_text_document.rank-7.$suffix.tmp"; done
echo part >gone_text_document.rank-8.bin.tmp
for suffix in mask chat_template.jinja; do echo part >gone_text_document.$suffix.tmp; done
for other in rank-x.bin.tmp rank-7.bin rank-7.notes.tmp; do echo mine >"gone_text_document.$other"; done
exec 9<gone_text_document.rank-8.bin.tmp
flock 9
on 2 0 --input in --output-prefix gone
exec 9<&-
same_files one gone
[ "$(ls gone_text_document.*{rank,tmp}* | sort -u | tr '\n' ' ')" = "gone_text_document.rank-7.bin \
gone_text_document.rank-7.notes.tmp gone_text_document.rank-8.bin.tmp \
gone_text_document.rank-x.bin.tmp " ] || fail "left: $(ls gone_text_document.*)"
# A single file, which only one rank can read.
on 3 0 --input in/a.txt --output-prefix single --workers 1
expect 0 "$tool" --tokenizer tok.json --append-eod --input in/a.txt --output-prefix alone
same_files alone single

# A fault in one rank ends all with one line, and nothing is left.
cp -r in faulty
{ cat in/f.txt; printf 'bad \377 byte\n'; } >faulty/f.txt
on 3 3 --input faulty --output-prefix x
says err "faulty/f.txt:"
says err "invalid UTF-8"
nothing_left x
gzip -dc in/e.txt.gz | gzip | head -c 9000 >faulty/e.txt.gz
on 3 3 --input faulty --output-prefix x
says err "e.txt.gz: damaged gzip data: unexpected end"
nothing_left x
cp in/e.txt.gz faulty
on 3 0 --input faulty --output-prefix skip --on-error skip
says err "skipped 1 document: 1 with invalid UTF-8"
expect 0 "$tool" --tokenizer tok.json --append-eod --input faulty --output-prefix skip1 --on-error skip
same_files skip1 skip

on 2 3 --input missing.txt --output-prefix x
on 2 3 --input in/b.txt in/d.txt in/g.txt --output-prefix x
says err "no usable document in the input"
on 2 2 --input - --output-prefix x </dev/null
says err "only one process can read it"
on 2 5 --input in --output-prefix /proc/no/x
nothing_left x
expect 2 "$mpirun" -n 2 "$tool" train-tokenizer --input corpus.txt --vocab-size 330 --model-prefix x
says err "train-tokenizer runs as one process, not 2"

finish
