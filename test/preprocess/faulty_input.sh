#!/usr/bin/env bash
# gpt-preprocess on faulty input: one error that names the place, or a count, and never torn output.
. "$(dirname "$0")/common.sh"

make_text 3000 >corpus.txt
expect 0 "$tool" train-tokenizer --type unigram --input corpus.txt --vocab-size 330 --model-prefix tok
encode() {
  local status=$1
  shift
  expect "$status" "$tool" --tokenizer tok.model "$@"
}

# Every file of the corpus is refused by name; with skip, its good lines remain.
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
      says err "skipped 1 document"
      ;;
  esac
done

# The report is the same for any number of workers, counts all kinds and shows the first ten.
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
says err "the key 'text' is missing; its keys with text are 'txt': choose one with --json-key"
says err "skipped 24 documents: 4 with invalid UTF-8, 20 with a missing key"
says out "2000 documents"
[ "$(wc -l <err)" = 12 ] || fail "a report of $(wc -l <err) lines"
encode 3 --input mixed.jsonl --output-prefix s1 --workers 5
says err "mixed.jsonl:101: byte "

# A failed run does not touch earlier output.
cp s1_text_document.bin before.bin
encode 3 --input mixed.jsonl --output-prefix s1
same before.bin s1_text_document.bin
[ -z "$(ls | grep tmp)" ] || fail "temporary files: $(ls | grep tmp)"

# A line of a gigabyte is never held in memory. (Sanitizers need more address space than this
# limit.)
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

# Other faults in files, options and paths.
encode 3 --input missing.txt --output-prefix x
says err "missing.txt: no such file (relative to $work, where the program was started)"
encode 3 --input . --output-prefix x
expect 3 "$tool" --input corpus.txt --tokenizer corpus.txt --output-prefix x
says err "corpus.txt: is a text file, not a tokenizer"
cp corpus.txt run.yaml
expect 2 "$tool" --input corpus.txt --tokenizer run.yaml --output-prefix x
says err "run.yaml: is a YAML file, not a tokenizer"
expect 3 "$tool" --input corpus.txt --tokenizer missing.model --output-prefix x
says err "missing.model: no such file (relative to $work,"
expect 3 "$tool" inspect missing
says err "missing.idx: no such file (relative to $work,"
expect 2 "$tool" inspect
says err "inspect: give the PREFIX of token files"
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

# Gzipped files that are damaged, truncated, or not gzip.
gzip -c corpus.txt >whole.txt.gz
packed() {
  encode 3 --input "$1" --output-prefix packed
  says err "$1: "
  says err "$2"
  nothing_left packed
}
head -c 20000 whole.txt.gz >cut.txt.gz
packed cut.txt.gz "unexpected end"
{ head -c 5000 whole.txt.gz; printf 'damage'; tail -c +5007 whole.txt.gz; } >damaged.txt.gz
packed damaged.txt.gz "damaged gzip data"
{ cat whole.txt.gz; printf 'more'; } >longer.txt.gz
packed longer.txt.gz "unexpected data after the end"
cp corpus.txt plain.gz
packed plain.gz "is not gzip data"
gzip -c whole.txt.gz >twice.gz
packed twice.gz "inside compressed data"
zstd -q -c corpus.txt >whole.txt.zst
head -c 5000 whole.txt.zst >cut.txt.zst
packed cut.txt.zst "unexpected end"
head -c 3 whole.txt.zst >start.txt.zst
packed start.txt.zst "is not zstd data"
{ head -c 3000 whole.txt.zst; printf 'damage'; tail -c +3007 whole.txt.zst; } >damaged.txt.zst
packed damaged.txt.zst "damaged zstd data"
{ cat whole.txt.zst; printf 'more'; } >longer.txt.zst
packed longer.txt.zst "unexpected data after the end"
cp corpus.txt plain.zst
packed plain.zst "is not zstd data"
cp whole.txt.gz other.zst
packed other.zst "is not zstd data"
zstd -q -c --long=28 <corpus.txt >window.txt.zst
packed window.txt.zst "a window above 128 MiB"
! grep -q "damaged\|copy" err || fail "a whole file is called damaged: $(cat err)"
says err "zstd -dc --long=31 'window.txt.zst' >FILE"
encode 0 --input - --output-prefix unpacked < <(zstd -q -dc --long=31 window.txt.zst)
zstd -q -c whole.txt.zst >twice.zst
packed twice.zst "inside compressed data"
tar cf corpus.tar corpus.txt
packed corpus.tar "tar archive"
gzip corpus.tar
packed corpus.tar.gz "tar archive"

# Tables and JSON objects read as plain text: one warning, unless --format asks for it.
cp corpus.txt table.csv
printf '{"text": "a"}\n{"text": "b"}\n' >objects.txt
for input in table.csv objects.txt; do
  encode 0 --input $input --output-prefix prose
  [ "$(grep -c "^warning: $input: .*plain text" err)" = 1 ] || fail "no warning: $(cat err)"
  encode 0 --input $input --output-prefix prose --format text
  [ ! -s err ] || fail "a warning of what was asked for: $(cat err)"
done

# The same of a pipe, and of one line without an end.
encode 0 --input - --output-prefix prose <objects.txt
says err "warning: /dev/stdin: its first lines are JSON objects"
encode 0 --input <(printf '{"text": "a"}') --output-prefix prose
says err "read it with --format jsonl to use only the text"
encode 0 --input - --output-prefix prose < <(cat corpus.txt)
[ ! -s err ] || fail "a warning of text: $(cat err)"

# A JSON array in place of JSON lines, in one line or in several.
printf '[{"text": "a"}, {"text": "b"}]\n' >array.json
printf '[\n  {"text": "a"}\n]\n' >pretty.json
for input in array.json pretty.json; do
  encode 3 --input $input --output-prefix array
  says err "$input:1: byte 0: a JSON array; make JSON lines of it (jq -c '.[]' FILE)"
done
nothing_left array_

# A limit on file sizes, and a stdout that accepts nothing.
(
  ulimit -f 8
  exec "$tool" --input corpus.txt --tokenizer tok.model --output-prefix limited >out 2>err
)
[ $? = 5 ] && [ "$(wc -l <err)" = 1 ] || fail "under ulimit -f: $(cat err)"
says err "limited_text_document"
nothing_left limited
(
  ulimit -f 1
  exec "$tool" train-tokenizer --type unigram --input corpus.txt --vocab-size 330 --model-prefix limited >out 2>err
)
[ $? = 5 ] && [ "$(wc -l <err)" = 1 ] || fail "a tokenizer under ulimit -f: $(cat err)"
nothing_left limited
for arguments in --help "merge --input s1_text_document --output-prefix full" \
  "inspect s1_text_document" "--input corpus.txt --tokenizer tok.model --output-prefix full" \
  "train-tokenizer --type unigram --input corpus.txt --vocab-size 330 --model-prefix full"; do
  "$tool" $arguments >/dev/full 2>err
  [ $? = 5 ] && [ "$(wc -l <err)" = 1 ] || fail "$arguments >/dev/full: $(cat err)"
  says err "stdout: No space left on device"
done
"$tool" --input corpus.txt --tokenizer tok.model --output-prefix closed <&- >&- 2>&-
[ $? = 0 ] || fail "without stdin, stdout and stderr"
same full_text_document.bin closed_text_document.bin

# Too little address space: one line, nothing left. (Sanitizers need more than any such limit.)
if ! grep -q __asan_init "$tool"; then
  short() {
    local kib status refusals=0
    for kib in $(seq 20000 20000 1000000); do
      rm -f short*
      (
        ulimit -v "$kib"
        exec "$tool" "$@" >out 2>err
      )
      status=$?
      [ $status = 127 ] && continue
      [ $status = 0 ] && break
      [ $status = 2 ] && [ "$(grep -c '^gpt-preprocess: error: ' err)" = "$(wc -l <err)" ] ||
        fail "status $status under ulimit -v $kib: $* ($(cat err))"
      nothing_left short
      refusals=$((refusals + 1))
    done
    [ $status = 0 ] && [ $refusals -gt 1 ] || fail "$refusals refusals: $*"
  }
  short --input corpus.txt --tokenizer tok.model --output-prefix short --workers 8
  short train-tokenizer --type unigram --input corpus.txt --vocab-size 330 --model-prefix short
fi

# A signal ends the run by that signal and removes unfinished files.
endless() {
  while cat corpus.txt 2>/dev/null; do :; done
}
"$tool" --tokenizer tok.model --input <(endless) --output-prefix signalled >out 2>ending &
process=$!
for _ in $(seq 1 100); do
  [ -n "$(ls | grep '^signalled.*tmp')" ] && break
  sleep 0.1
done
[ -n "$(ls | grep '^signalled.*tmp')" ] || fail "the run to be interrupted has not begun"
sleep 0.2
# Meanwhile another run of the same prefix is refused, and leaves the first one's files alone.
encode 5 --input corpus.txt --output-prefix signalled
says err "another process writes signalled_text_document.bin"
[ -n "$(ls | grep '^signalled.*bin.tmp')" ] || fail "the files of the first run are gone"
kill -TERM $process
wait $process
status=$?
[ $status = 143 ] || fail "ended by SIGTERM with status $status"
says ending "interrupted by SIGTERM; unfinished files were removed"
nothing_left signalled

finish
