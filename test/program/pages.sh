#!/usr/bin/env bash
# Usage: pages.sh GPTRAIN GPT-PREPROCESS. The commands of README.md's own text and of
# docs/your-own-text.md run as printed, in fresh folders whose names have spaces and umlauts,
# with narrow models and a few steps instead of hundreds: nothing here depends on what they learn.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$script")/../openmpi.sh"
for program in bible mpirun curl; do
    command -v $program >/dev/null || not_run "there is no $program"
done
root=$(realpath "$(dirname "$script")/../..")

mkdir bin
ln -s "$gptrain" bin/gptrain
ln -s "$preprocess" bin/gpt-preprocess
export PATH=$work/bin:$PATH
# One document per chapter, as scripts/quickstart.sh makes them.
bible -f gen1:1-rev22:21 </dev/null | awk '{
    chapter = $1
    sub(/:.*/, "", chapter)
    if (NR > 1 && chapter != before) print ""
    before = chapter
    sub(/^[^ ]+ +/, "")
    print
}' >all.txt

# in_folder NAME: a fresh folder with the files that a page takes for granted.
in_folder() {
    mkdir -p "$work/$1/data"
    cd "$work/$1" || exit 1
    head -n 5000 "$work/all.txt" >stories.txt
    tail -n 300 "$work/all.txt" >other-stories.txt
    cp "$(dirname "$script")/../tasks/hellaswag.jsonl" data/hellaswag_val.jsonl
}

# section FILE FIRST LAST: the lines from the heading FIRST up to the heading LAST.
section() { awk -v first="$2" -v last="$3" '$0 == last { exit } $0 == first { on = 1 } on' "$1"; }

# commands FILE: the commands of the page's blocks, one a line; a block of YAML is the command that
# writes stories.yaml.
commands() {
    awk '/^ *```bash/ { bash = 1; next } /^ *```yaml/ { print "write_spec"; next } /^ *```/ { bash = 0 }
        bash { sub(/^ +/, ""); if (sub(/\\$/, "")) { printf "%s", $0 } else { print } }' "$1"
}
# The page's specs, in their order: number N.
spec() { awk -v wanted="$2" '/^```yaml/ { ++n; next } /^```/ { if (n == wanted && on) exit; on = 0 }
    n == wanted { on = 1; print }' "$1"; }

# A command or a spec with a small model and few steps.
shortened() {
    sed -E 's/steps: [0-9]+/steps: 4/; s/(eval_|)interval: [0-9]+/\1interval: 2/; s/hidden_size: 256/hidden_size: 64/
        s/training.steps=250/training.steps=6/; s/training.steps=275/training.steps=8/
        s/step-000250/step-000006/; s/--max-tokens 200/--max-tokens 8/'
}

# serves COMMAND: the server answers until it is stopped.
serves() {
    eval "exec ${1%%#*} --port 0" >out 2>err </dev/null &
    local server=$!
    wait_for out "http://127.0.0.1:"
    curl -sf "$(grep -o 'http://127.0.0.1:[0-9]*' out | head -n 1)/health" >answer || fail "no answer: $1"
    kill -TERM $server
    wait $server || fail "$1: $(tail -n 3 err)"
}

# runs PAGE FIRST-SPEC: the commands of a page.
runs() {
    local page=$1 number=$2 command
    while IFS= read -r command <&3; do
        case $command in
            write_spec) spec "$page" $((number++)) | shortened >stories.yaml ;;
            '' | '#'*) ;;
            *'gptrain serve '*) serves "$command" ;;
            *)
                if ! bash -e -c "$(shortened <<<"$command")" </dev/null >out 2>err; then
                    fail "$PWD: $command: $(tail -c 500 err)"
                    return
                fi
                # The spec that `gptrain new` has written is shortened as a printed spec is.
                if [[ $command == 'gptrain new '* ]]; then
                    shortened <stories.yaml >short.yaml && mv short.yaml stories.yaml
                fi
                ;;
        esac
    done 3<"$page.commands"
}

section "$root/README.md" "## Your own text" "## What it can do today" >readme
commands readme >all.commands
grep -q '^gptrain new ' all.commands && grep -q '^mpirun -n 2 ' all.commands && grep -q write_spec all.commands ||
    fail "README has no such commands: $(cat all.commands)"
# One reader lets `gptrain new` write the spec, another one writes it.
readme=$work/readme
grep -v write_spec all.commands >readme.commands
in_folder "mit gptrain new, für Anfänger"
runs "$readme" 1
says out "finished after step"
[[ -s report.html && -s stories-hf/config.json ]] || fail "no page or no export"
[[ $(ls runs/stories-2/checkpoints) == step-* ]] || fail "no run on two ranks"

grep -v '^gptrain new ' "$work/all.commands" >"$readme.commands"
in_folder "von Hand, schön kurz"
runs "$readme" 1

cp "$root/docs/your-own-text.md" "$work/walkthrough"
walkthrough=$work/walkthrough
commands "$walkthrough" >"$walkthrough.commands"
(($(grep -c '^gptrain train ' "$walkthrough.commands") >= 4)) || fail "$(cat "$walkthrough.commands")"
in_folder "Schritt für Schritt"
runs "$walkthrough" 1
says out '"perplexity"'
[[ $(ls runs) == $'stories\nstories-muon\nstories-top' ]] || fail "runs: $(ls runs)"

cd "$work" || exit 1
finish
