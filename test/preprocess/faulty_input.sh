#!/usr/bin/env bash
# gpt-preprocess on faulty input: one error that names the place, or a count, and never a torn output.
. "$(dirname "$0")/common.sh"

make_text 3000 >corpus.txt
expect 0 "$tool" train-tokenizer --input corpus.txt --vocab-size 330 --model-prefix tok
encode() {
  local status=$1
  shift
  expect "$status" "$tool" --tokenizer tok.model "$@"
}

# Every file of the corpus: refused with its name; with skip its good lines remain.
for path in "$corpus"/*.jsonl; do
  name=$(basename "$path" .jsonl)
  encode 3 --input "$path" --output-prefix hostile
  case $name in
    whole_empty | whole_blank) says err "no usable document" ;;
    whole_*) says err "$path" ;;
    *) says err "$path:2: byte 18" ;;
  esac
  nothing_left hostile
  case $name in
    whole_*) encode 3 --input "$path" --output-prefix hostile --on-error skip ;;
    end_*)
      encode 0 --input "$path" --output-prefix skipped --on-error skip
      says out "1 documents"
      ;;
    *)
      encode 0 --input "$path" --output-prefix skipped --on-error skip
      says out "2 documents"
      says err "left out 1 document"
      ;;
  esac
done

# The report is the same for every number of workers, counts all kinds and shows the first ten.
for i in $(seq 1 2000); do
  printf '{"text": "good %d"}\n' "$i"
  [ $((i % 100)) = 0 ] && printf '{"txt": "no key"}\n'
  [ $((i % 500)) = 0 ] && printf '{"text": "caf\351"}\n'
done >mixed.jsonl
encode 0 --input mixed.jsonl --output-prefix s1 --on-error skip --workers 1
cp err err1
encode 0 --input mixed.jsonl --output-prefix s5 --on-error skip --workers 5
same err err1
same s1_text_document.bin s5_text_document.bin
same s1_text_document.idx s5_text_document.idx
says err "mixed.jsonl:101: byte "
says err "left out 24 documents: 4 with invalid UTF-8, 20 with a missing key"
says out "2000 documents"
[ "$(wc -l <err)" = 12 ] || fail "a report of $(wc -l <err) lines"
encode 3 --input mixed.jsonl --output-prefix s1 --workers 5
says err "mixed.jsonl:101: byte "

# A failed run leaves the older output alone.
cp s1_text_document.bin before.bin
encode 3 --input mixed.jsonl --output-prefix s1
same before.bin s1_text_document.bin
[ -z "$(ls | grep tmp)" ] || fail "temporary files: $(ls | grep tmp)"

# A line of a gigabyte: never held in memory. (Sanitizers need more address space than this limit.)
gigabyte_line() {
  printf '{"text": "first"}\n{"text": "'
  head -c 1073741824 /dev/zero | tr '\0' 'a'
  printf '"}\n{"text": "third"}\n'
}
limited() {
  (
    if ! grep -q __asan_init "$tool"; then ulimit -v 1000000; fi
    exec "$@"
  )
}
giga() {
  limited "$tool" --tokenizer tok.model --input /dev/stdin --format jsonl --workers 2 "$@" \
    < <(gigabyte_line)
}
expect 0 giga --output-prefix giga --on-error skip
expect 3 giga --output-prefix giga2
expect 0 "$tool" inspect giga_text_document
says out "2 documents"
nothing_left giga2
encode 3 --input corpus.txt --documents file --max-document-bytes 1000 --output-prefix long
says err "corpus.txt:1: byte 0"

# Other faults of files, options and places.
encode 3 --input missing.txt --output-prefix x
says err "missing.txt"
encode 3 --input . --output-prefix x
expect 3 "$tool" --input corpus.txt --tokenizer corpus.txt --output-prefix x
says err "corpus.txt"
expect 3 "$tool" --input corpus.txt --tokenizer missing.model --output-prefix x
says err "missing.model"
expect 2 "$tool" --input corpus.txt --output-prefix x
expect 2 "$tool" --tokenizer tok.model --output-prefix x
encode 2 --input corpus.txt --output-prefix x --workers 0
encode 2 --input corpus.txt --output-prefix x --on-error retry
encode 2 --input corpus.txt --output-prefix x --json-key body
encode 2 --input mixed.jsonl --output-prefix x --documents line
encode 2 --input corpus.txt --output-prefix x --no-such-option
expect 2 "$tool" --append-eod inspect s1_text_document
encode 5 --input corpus.txt --output-prefix /proc/no/x
nothing_left x

# A signal ends the run by that signal and removes what was begun.
endless() {
  while cat corpus.txt 2>/dev/null; do :; done
}
"$tool" --tokenizer tok.model --input <(endless) --output-prefix signalled >out 2>err &
process=$!
for _ in $(seq 1 100); do
  [ -n "$(ls | grep '^signalled.*tmp')" ] && break
  sleep 0.1
done
[ -n "$(ls | grep '^signalled.*tmp')" ] || fail "the run to be interrupted has not begun"
sleep 0.2
kill -TERM $process
wait $process
status=$?
[ $status = 143 ] || fail "ended by SIGTERM with status $status"
says err "interrupted"
nothing_left signalled

finish
