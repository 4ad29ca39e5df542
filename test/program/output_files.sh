#!/usr/bin/env bash
# Files that a user names as outputs, and files under a name that gptrain uses, are not harmed:
# every option that takes a path, and every file of a run and of token files.
. "$(dirname "$0")/lib.sh"
make_data
make_spec
train 0 run training.steps=4
echo '{"question": "who", "answer": "him"}' >questions.jsonl
cat >questions.yaml <<'END'
kind: exact_match
data: questions.jsonl
prompt: "{{ question }}"
target: "{{ answer }}"
max_tokens: 2
END

# The role of each option that completes paths. A new one must be added here: as an input, as an
# output that must not exist, or below, with the command that writes it.
inputs="--config --hardware --inject --resume --set train:--config train:--hardware train:--inject train:--resume train:--set
    export:--checkpoint inspect:--checkpoint report:--checkpoint eval:--adapted eval:--checkpoint eval:--data eval:--set
    eval:--task eval:--task-data eval:--template eval:--tokenizer export:--adapted export:--tokenizer
    export:--tokenizer-from generate:--adapted generate:--checkpoint generate:--prompt-file
    generate:--set generate:--template generate:--tokenizer inspect:--set inspect:--tokenizer
    new:--data new:--hardware new:--model new:--tokenizer plan:--config plan:--fix plan:--hardware
    plan:--model plan:--set
    report:--hardware report:--timeline serve:--adapted serve:--checkpoint serve:--set
    serve:--template serve:--token-file serve:--tokenizer"
new="export:--output import:--output new:--output plan:--write"
# COMMAND:OPTION ENDING INPUT ARGUMENTS...
outputs="--json any run.yaml --config run.yaml --dry-run --hardware cpu --json
--timeline .json run.yaml --config run.yaml --dry-run --timeline
train:--json any run.yaml train run.yaml --dry-run --hardware cpu --json
train:--timeline .json run.yaml train run.yaml --dry-run --timeline
eval:--json any questions.jsonl eval --checkpoint run --task questions.yaml --json
eval:--details any questions.jsonl eval --checkpoint run --task questions.yaml --details
plan:--json any run.yaml plan --config run.yaml --hardware cpu --world-size 1 --json
plan:--picture .svg run.yaml plan --config run.yaml --hardware cpu --world-size 1 --picture
plan:--learn any run.yaml plan --config run.yaml --hardware cpu --measure 1 --learn
report:--output any run/metrics.jsonl report run --format csv --output"
# It measures for minutes, so only what is refused at its start is tried.
calibrate="plan:--calibrate"

path_options() {
    "$gptrain" help --format bash | sed -nE 's/^ *([a-z-]*):(--[a-z-]+)\).*paths.*/\1:\2/p' |
        sed 's/^://' | sort
}
diff <(path_options) <({ tr -s ' \n' '\n' <<<"$inputs $new"; cut -d ' ' -f 1 <<<"$outputs"; echo "$calibrate"; } | sort) ||
    fail "options that take paths and this script's list differ"

# write CODE PATH: the output of the command in `arguments` to that path.
write() { expect_exit "$1" "$gptrain" "${arguments[@]}" "$2"; }

check_output() {
    local option=$1 ending=${2/any/} input=$3 name=$1$2
    arguments=("${@:4}")
    local file=file$ending pipe=pipe$ending link=link$ending
    rm -rf "$pipe" "$link" "$file"* other mine folder"$ending"

    mkfifo "$pipe"
    cat "$pipe" >piped &
    local reader=$!
    write 0 "$pipe"
    if [[ -p $pipe ]]; then wait $reader; else kill $reader; fi
    [[ -p $pipe && -s piped ]] || fail "$name: a FIFO was replaced or got nothing"

    # A link to nothing yet, then to a file; nothing else appears where it leads.
    mkdir other
    ln -s other/target "$link"
    for again in 1 2; do
        write 0 "$link"
        [[ -L $link && -s other/target && $(ls other) == target ]] ||
            fail "$name: a link was replaced: $(ls -l "$link" other)"
        echo old >other/target
    done
    # Two names of a file stay the same file.
    ln other/target "$file"
    write 0 "$file"
    [[ $file -ef other/target && $(cat "$file") != old ]] || fail "$name: a hard link was cut"

    # Mode and owner stay, and so does whatever has a similar name.
    rm "$file"
    echo old >"$file"
    chmod 640 "$file"
    ((EUID != 0)) || chown 65534:65534 "$file"
    local before
    before=$(stat -c '%a %u %g' "$file")
    echo mine >mine
    ln -s mine "$file.tmp"
    write 0 "$file"
    [[ $(stat -c '%a %u %g' "$file") == "$before" && $(cat "$file") != old ]] ||
        fail "$name: mode or owner were lost: $(ls -l "$file")"
    [[ -L $file.tmp && $(cat mine) == mine ]] || fail "$name: wrote into $file.tmp"
    [[ -z $(find . -maxdepth 1 -name '*.tmp-*') ]] || fail "$name: left $(ls -- *.tmp-*)"

    # An input, also under another name.
    local original
    original=$(cksum <"$input")
    ln -sf "$input" "$link"
    write 2 "$link"
    says err "is an input of this command"
    [[ -e $input && $(cksum <"$input") == "$original" ]] || fail "$name: overwrote $input"

    mkdir "folder$ending"
    write 2 "folder$ending"
    says err "is a folder"

    # stdout holds the output alone.
    [[ $ending == .json ]] || check_stdout "$name" "straight$ending"
}

check_stdout() {
    "$gptrain" "${arguments[@]}" - >piped 2>err || fail "$1 -: exit code $?: $(cat err)"
    [[ -s piped && ! -e ./- ]] || fail "$1 -: made a file"
    write 0 "$2"
    [[ $(head -c 20 piped) == "$(head -c 20 "$2")" && $(wc -l <piped) == "$(wc -l <"$2")" ]] ||
        fail "$1 -: stdout has other text: $(head -c 300 piped)"
}

while read -r line; do
    check_output $line
done <<<"$outputs"

arguments=(plan --calibrate)
mkdir calibrated
write 2 calibrated
says err "is a folder"
write 5 /proc/calibrated
expect_exit 2 "$gptrain" eval --checkpoint run --task questions.yaml --json - --details -
says err "--details -: another output goes to stdout"
# Outputs that must be new are not made through links, nor where they cannot be read back.
ln -s nowhere dangling.yaml
expect_exit 2 "$gptrain" new --data text_text_document --tokenizer tok.model --output dangling.yaml
expect_exit 2 "$gptrain" plan --config run.yaml --hardware cpu --world-size 1 --write dangling.yaml
expect_exit 2 "$gptrain" export run --format hf --output dangling.yaml
expect_exit 2 "$gptrain" export run --format hf --output -
says err "--output -: cannot go to stdout"
expect_exit 2 "$gptrain" import nothing --output -
[[ ! -e nowhere ]] || fail "an output that must be new was made through a link"

# Devices: writing to one of our own, where that is possible, and to those that fail.
if mknod null c 1 3 2>err; then
    expect_exit 0 "$gptrain" report run --output null
    [[ -c null ]] || fail "a device was replaced"
fi
expect_exit 5 "$gptrain" report run --output /dev/full
"$gptrain" report run --format csv --output /dev/stdout >piped 2>err || fail "/dev/stdout: $(cat err)"
same piped straight

# Every file of a run, if it is a link or a FIFO: the target of the link stays as it is, and nothing
# hangs on the FIFO.
train 0 whole training.steps=4 training.eval_interval=2
for file in $(cd whole && find . -path ./checkpoints -prune -o -type f -print); do
    for kind in link fifo; do
        rm -rf try victim
        cp -a whole try
        mv "try/$file" victim
        cp victim victim.before
        if [[ $kind == link ]]; then ln -s "$work/victim" "try/$file"; else mkfifo "try/$file"; fi
        settings output_dir=try training.steps=6 training.eval_interval=2
        timeout 20 "$gptrain" --config run.yaml "${set[@]}" >out 2>err
        code=$?
        [[ $code =~ ^[0235]$ ]] || fail "$file is a $kind: exit code $code: $(tail -n 2 err)"
        same victim victim.before
    done
done
# Prometheus' file is an output, too; a run does not wait for the reader of a FIFO.
mkfifo pipe.prom
train 0 whole training.steps=5 logging.prometheus=pipe.prom
says err "pipe.prom: is a FIFO; training continues"
ln -s prom.target link.prom
train 0 whole training.steps=6 logging.prometheus=link.prom
[[ -L link.prom && -s prom.target ]] || fail "link.prom was replaced"
rm -rf try
cp -a whole try
rm try/.lock
ln -s "$work/made" try/.lock
train 5 try training.steps=8
says err "try/.lock: is a symbolic link"
[[ ! -e made ]] || fail "the lock was made through a link"
rm try/.lock
echo "my notes" >try/.lock
train 2 try training.steps=8
says err "try/.lock: is not the lock of a run; remove it"
[[ $(cat try/.lock) == "my notes" ]] || fail "a file named .lock was emptied"

# The user's own spec.yaml in the output directory. One that a run wrote is replaced.
mkdir own
{ echo "# for the paper"; sed 's/^output_dir: run/output_dir: own/' run.yaml; } >own/spec.yaml
cp own/spec.yaml mine.yaml
expect_exit 2 "$gptrain" --config own/spec.yaml
says err "own/spec.yaml: gptrain did not write this file"
same own/spec.yaml mine.yaml
[[ $(ls own) == spec.yaml ]] || fail "a refused run wrote $(ls own)"
rm own/spec.yaml
expect_exit 0 "$gptrain" --config mine.yaml --set training.steps=4 '--set=name=a " #1'
expect_exit 0 "$gptrain" --config own/spec.yaml --set training.steps=6
says own/spec.yaml "  steps: 6"

# A variable that no shell has expanded makes nothing, whatever option or key has it.
variable='${NOWHERE}'
nothing_made() { [[ -z $(find . -name '*NOWHERE*') ]] || fail "$*: made $(find . -name '*NOWHERE*')"; }
while read -r option ending input rest; do
    arguments=($rest)
    write 2 "$variable${ending/any/}"
    says err "$variable"
done <<<"$outputs"
expect_exit 2 "$gptrain" new --data text --tokenizer tok.model --output "$variable.yaml"
expect_exit 2 "$gptrain" plan --config run.yaml --hardware cpu --world-size 1 --write "$variable.yaml"
expect_exit 2 "$gptrain" export run --format hf --output "$variable"
expect_exit 0 "$gptrain" export run --format hf --output hf
expect_exit 2 "$gptrain" import hf --output "$variable"
nothing_made options
keys=$("$gptrain" help --format bash | grep -m 1 -o ":--set) words '[^']*'" | cut -d "'" -f 2)
(($(wc -w <<<"$keys") > 90)) || fail "the keys of the run spec: $keys"
for key in $keys; do
    timeout 20 "$gptrain" --config run.yaml --set "$key$variable/x" >out 2>err
    nothing_made "$key"
done

# Token files and tokenizers.
expect() {
    local code=$1
    shift
    timeout 60 "$preprocess" "$@" >out 2>err
    (($? == code)) || fail "gpt-preprocess $*: not $code: $(cat err)"
}
for command in "--input text.txt --tokenizer tok.model --output-prefix" \
    "merge --input text text --output-prefix" \
    "train-tokenizer --input text.txt --vocab-size 300 --model-prefix"; do
    expect 2 $command "$variable/x"
done
nothing_made gpt-preprocess
encode() { expect "$1" --input text.txt --tokenizer tok.model --output-prefix "$2" --append-eod; }
encode 0 a
for file in a_text_document.bin a_text_document.idx a_text_document.meta.json; do
    for name in "$file" "$file.tmp"; do
        cp text.txt victim
        rm -f a_text_document.*
        ln -s victim "$name"
        timeout 60 "$preprocess" --input text.txt --tokenizer tok.model --output-prefix a >out 2>err
        code=$?
        [[ $code == [25] ]] || fail "$name is a link: exit code $code: $(cat err)"
        same victim text.txt
        rm "$name"
        [[ $name != "$file" ]] || continue
        ln victim "$name"
        timeout 60 "$preprocess" --input text.txt --tokenizer tok.model --output-prefix a >out 2>err
        code=$?
        [[ $code == [02] ]] || fail "$name is a hard link: exit code $code: $(cat err)"
        same victim text.txt
        rm -f "$name"
    done
done
encode 0 a
encode 0 b
cp a_text_document.bin before
expect 2 merge --input a_text_document b_text_document --output-prefix a_text_document
says err "would overwrite a_text_document.bin, which is an input"
same a_text_document.bin before
cp text.txt corpus.json
expect 2 train-tokenizer --input corpus.json --format text --vocab-size 300 --model-prefix corpus
same corpus.json text.txt
expect 0 train-tokenizer --input text.txt --vocab-size 300 --model-prefix bytes
cp bytes.json before
expect 2 train-tokenizer --input text.txt --vocab-size 310 --model-prefix bytes
says err "--model-prefix bytes.json: exists; remove it or choose another name"
same bytes.json before
finish
