#!/usr/bin/env bash
# gptrain eval: text of every kind gives the same result as gpt-preprocess and a token data set, and
# errors name the file.
. "$(dirname "$0")/lib.sh"
make_data
make_spec
train 0 run

# eval_of DATA OPTION...: the result, one line.
eval_of() {
    expect_exit 0 "$gptrain" eval --checkpoint run --data "$@"
    tail -n 1 out
}

# JSON lines, with either extension, another key, or compressed: the tokens of a data set made from
# them.
make_text 5 60 | awk 'NF { print "{\"id\": " NR ", \"text\": \"" $0 "\\n\"}" }' >docs.jsonl
expect_exit 0 "$preprocess" --input docs.jsonl --tokenizer tok.model --output-prefix docs
expected=$(eval_of docs_text_document)
[[ $expected == '{"loss":'* ]] || fail "no result: $expected"
cp docs.jsonl docs.json
sed 's/"text"/"body"/' docs.jsonl >body.jsonl
gzip -k docs.jsonl
zstd -q -k docs.jsonl
for arguments in docs.jsonl docs.json docs.jsonl.gz docs.jsonl.zst "body.jsonl --json-key body"; do
    got=$(eval_of $arguments)
    [[ $got == "$expected" ]] || fail "$arguments: $got, not $expected"
done
[[ ! -s err ]] || fail "warnings: $(cat err)"

# Rows of Parquet, also as a task's file.
sets=$(dirname "${BASH_SOURCE[0]}")/../corpus/parquet
cp "$sets/numbers.parquet" rows.parquet
printf '{"text": "%s", "i": %s}\n' a 1 b null c -3 >rows.jsonl
got=$(eval_of rows.parquet)
[[ $got == "$(eval_of rows.jsonl)" ]] || fail "rows: $got, not $(eval_of rows.jsonl)"
for kind in parquet jsonl; do
    printf 'kind: perplexity\ndata: rows.%s\ntext: "{{ text }} and {{ i }}"\n' $kind >rows.yaml
    expect_exit 0 "$gptrain" eval --checkpoint run --task rows.yaml
    tail -n 1 out >task.$kind
done
cmp -s task.parquet task.jsonl || fail "a task: $(cat task.parquet), not $(cat task.jsonl)"

# Plain text is one document, gzipped or not, whatever its line ends.
make_text 6 60 >plain.txt
expect_exit 0 "$preprocess" --input plain.txt --documents file --tokenizer tok.model --output-prefix plain
expected=$(eval_of plain_text_document)
gzip -k plain.txt
head -n 20 plain.txt | gzip >parts.gz
tail -n +21 plain.txt | gzip >>parts.gz
{ printf '\357\273\277'; sed 's/$/\r/' plain.txt; } >windows.txt
for data in plain.txt plain.txt.gz parts.gz windows.txt; do
    got=$(eval_of $data)
    [[ $got == "$expected" ]] || fail "$data: $got, not $expected"
done

# A folder: the files that gpt-preprocess reads, in its order, without those of the tokenizer.
mkdir -p corpus/sub corpus/.hidden
cp plain.txt corpus/a.txt
cp docs.jsonl.gz corpus/sub
cp text.txt corpus/.hidden
cp text.txt corpus/notes.md
expect_exit 0 "$preprocess" --input corpus --documents file --tokenizer tok.model --output-prefix corpus
expected=$(eval_of corpus_text_document)
expect_exit 2 "$gptrain" eval --checkpoint run --data plain.txt --split test
says err "--split chooses files of a folder, but no input is one"
got=$(eval_of corpus)  # the folder comes before corpus_text_document, which is not named so exactly
[[ $got == "$expected" ]] || fail "a folder: $got, not $expected"
says out "corpus: leaves out the files with other endings: 1 .md"
eval_of text_text_document >whole
sed 's/"text"/"body"/' docs.jsonl | gzip >corpus/sub/docs.jsonl.gz
got=$(eval_of corpus --json-key body)
[[ $got == "$expected" ]] || fail "a folder with --json-key: $got, not $expected"

# A prefix is found with and without its ending; files of exactly that name come first.
got=$(eval_of text)
[[ $got == "$(<whole)" ]] || fail "eval --data text: $got, not $(<whole)"
for file in bin idx meta.json; do cp docs_text_document.$file plainly.$file; done
got=$(eval_of plainly_text_document)
[[ $got == "$(eval_of docs_text_document)" ]] || fail "plainly without its ending: $got"
for file in bin idx meta.json; do cp text_text_document.$file plainly_text_document.$file; done
got=$(eval_of plainly)
[[ $got == "$(eval_of docs)" && $got != "$(<whole)" ]] || fail "plainly itself: $got"
for command in "$gptrain inspect" "$preprocess inspect"; do
    expect_exit 0 $command text
    says out text_text_document
done
expect_exit 0 "$preprocess" merge --input text docs --output-prefix both
(($(stat -c %s both.bin) == $(cat text_text_document.bin docs_text_document.bin | wc -c))) || fail "merge: $(ls -l)"
train 0 named data.train='[{prefix: text}]' data.split='"100,0,0"' data.validation='[{prefix: docs}]' training.steps=2

# A text shorter than a window.
printf 'the earth' >short.txt
expect_exit 0 "$preprocess" --input short.txt --documents file --tokenizer tok.model --output-prefix short
expected=$(eval_of short_text_document)
[[ $expected == '{"loss":'* && $(eval_of short.txt) == "$expected" ]] || fail "short text: $expected"

# Errors name the file, and the line if it has lines.
fault() {
    local code=$1
    shift
    expect_exit "$code" "$gptrain" eval --checkpoint run --data "$@"
    says err "$1"
}
fault 3 missing.txt
says err "missing.txt: no such text file, nor token data set" "(relative to $work,"
mkdir none
echo '# no corpus' >none/notes.md
fault 3 none
says err "none: a folder without a .parquet, .txt, .json or .jsonl file"
printf 'good\ncaf\351\n' >latin.txt
fault 3 latin.txt
says err "latin.txt:1: " "UTF-8"
printf '{"text": "a"}\n{"text": 5}\n' >number.jsonl
fault 3 number.jsonl
says err "number.jsonl:2: " "string"
fault 3 docs.jsonl --json-key body
says err "docs.jsonl:1: " "the key 'body' is missing; its keys with text are 'text'" "--json-key"
fault 3 empty.txt
: >empty.txt
fault 3 empty.txt
says err "fewer than two tokens"
head -c 300 docs.jsonl.gz >cut.jsonl.gz
fault 3 cut.jsonl.gz
says err "damaged gzip data: unexpected end"
{ head -c 300 docs.jsonl.gz; printf 'damage'; tail -c +307 docs.jsonl.gz; } >damaged.jsonl.gz
fault 3 damaged.jsonl.gz
says err "damaged gzip data"
cp plain.txt plain.gz
fault 3 plain.gz
says err "not gzip data"
fault 2 plain.txt --json-key text
rm corpus/sub/docs.jsonl.gz
fault 2 corpus --json-key text
fault 2 docs_text_document --json-key text

finish
