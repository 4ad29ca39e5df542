#!/usr/bin/env bash
# What gptrain shows only on a terminal. The third argument, ON_TERMINAL, runs a program on one.
. "$(dirname "$0")/lib.sh"
on_terminal=$(realpath "$3")
make_data
make_spec
train 0 text model.max_position_embeddings=64
train 0 ids data.tokenizer=none model.position_embedding=rope

# continues MODEL PROMPT SHOWN: on a terminal the text reads as a whole, from the prompt on; a pipe
# gets only what follows the prompt.
continues() {
    local generate=("$gptrain" generate --checkpoint "$1" --prompt "$2" --max-tokens 8 --temperature 0)
    expect_exit 0 "${generate[@]}"
    { printf '%s' "$3" && cat out; } >whole
    expect_exit 0 "$on_terminal" "${generate[@]}"
    mv out shown
    same whole shown
    expect_exit 0 env TERM=dumb "$on_terminal" "${generate[@]}"
    same whole out
    expect_exit 0 bash -c '"$@" | cat' - "${generate[@]}"
    { printf '%s' "$3" && cat out; } >piped
    same whole piped
}
continues text "and the earth" "and the earth"
continues text $'two  lines,\n\303\244 and a tab\t' $'two  lines,\n\303\244 and a tab\t'
continues ids "5 6  7" "5 6 7 "

# Of a refused prompt nothing is shown.
expect_exit 2 "$on_terminal" "$gptrain" generate --checkpoint ids --prompt "5 six"
[[ ! -s out ]] || fail "a refused prompt is shown: $(cat out)"

# What a model learns is in colour, unless the terminal or the user has none.
printf '{"prompt": "the", "response": " earth"}\n' >qa.jsonl
expect_exit 0 "$preprocess" chat --input qa.jsonl --tokenizer tok.model --output-prefix qa
shows() {
    expect_exit 0 env "${@:2}" "$on_terminal" "$gptrain" inspect qa_text_document --tokenizer tok.model
    says out "$1"
}
green=$'\033[32m'
shows "the$green earth</s>"$'\033[0m' TERM=xterm
shows "the$green earth</s>" TERM=xterm NO_COLOR=
shows "the{+ earth</s>+}" TERM=xterm NO_COLOR=1
shows "the{+ earth</s>+}" TERM=dumb

# Tasks show their progress in a bar.
seq 60 | sed 's/.*/{"text": "and the earth was without form &"}/' >texts.jsonl
printf 'kind: perplexity\ndata: texts.jsonl\ntext: "{{ text }}"\n' >texts.yaml
tasks_on() {
    expect_exit 0 env TERM="$1" "$on_terminal" "$gptrain" eval --checkpoint text --task texts.yaml
    says out '"token_perplexity"'
}
tasks_on xterm
grep -aqE '\[#+-*\] .*60/60' out || fail "no bar: $(cat -v out)"
tasks_on dumb
if grep -aq '\[#' out; then fail "a bar on a dumb terminal: $(cat -v out)"; fi

# sent COLUMNS TERM OUTPUT-DIR: what a training run shows on a terminal of this width, to the file
# sent: one line each time that a line is written or rewritten.
sent() {
    settings output_dir="$3" training.steps=200 logging.interval=100 lr_schedule.decay_steps=auto
    expect_exit 0 env TERM="$2" "$on_terminal" bash -c 'stty cols "$1" <&1 && exec "${@:2}"' - "$1" \
        "$gptrain" --config run.yaml "${set[@]}"
    says out "finished after step 200"
    tr '\r' '\n' <out | sed 's/\x1b\[K//g' >sent
}
# The bar of a run never wraps, and a terminal that cannot rewrite a line has none.
for columns in 40 80; do
    sent $columns xterm "bar-$columns"
    awk -v columns=$columns '/^\[[#-]+\] +[0-9]+%  step [0-9]+\/200/ { ++bars; wraps += length >= columns }
        END { exit !(bars > 0 && !wraps) }' sent || fail "the bar in $columns columns: $(cat -v out)"
done
sent 80 dumb bar-dumb
if grep -q -e '^\[' -e $'\033' sent; then fail "a bar on a dumb terminal: $(cat -v out)"; fi

finish
