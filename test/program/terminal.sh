#!/usr/bin/env bash
# Output that gptrain shows only on a terminal. The third argument, ON_TERMINAL, runs a program on
# one.
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

# Control characters of a text are shown on a terminal, however a model's tokens cut them, and sent
# to a pipe as they are.
escapes=$'\033]0;title\007 \302\23331m \177\r'
for ((i = 0; i < 200; ++i)); do printf '%s%s%s\n\n' "$escapes" "$escapes" "$escapes"; done >wild.txt
expect_exit 0 "$preprocess" train-tokenizer --input wild.txt --vocab-size 260 --model-prefix wild
expect_exit 0 "$preprocess" --input wild.txt --tokenizer wild.json --output-prefix wild
settings output_dir=writer data.train='[{prefix: wild}]' data.tokenizer=wild.json model.vocab_size=320 \
    training.global_batch_size=8 training.steps=100 \
    lr_schedule.decay_steps=100 data.num_samples=auto model.max_position_embeddings=128
expect_exit 0 "$gptrain" --config run.yaml "${set[@]}"
generate=("$gptrain" generate writer --prompt "$escapes" --max-tokens 40 --temperature 0)
expect_exit 0 "${generate[@]}"
{ printf '%s' "$escapes" && cat out; } >piped
tail -c +$((${#escapes} + 1)) piped | grep -aqE $'\033|\007|\302' || fail "the model writes no control characters: $(cat -v piped)"
expect_exit 0 "$on_terminal" "${generate[@]}"
mv out typed
if LC_ALL=C grep -aq $'[\001-\010\013-\037\177]\|\302[\200-\237]' typed; then
    fail "a terminal gets control characters: $(cat -v typed)"
fi
says typed '\x1b]0;title\x07 \u009b31m \x7f\x0d'
# Nothing else is changed.
printf '%b' "$(sed 's/\\u00\(..\)/\\xc2\\x\1/g' typed)" >back
printf '%s' "$(<piped)" >whole
same whole back
for inspect in "$gptrain inspect" "$preprocess inspect"; do
    expect_exit 0 "$on_terminal" $inspect wild --tokenizer wild.json
    says out '\x1b]0;title\x07'
    if grep -q $'\033' out; then fail "$inspect: $(cat -v out)"; fi
done
named=$'run\033]0;x\007'
mv writer "$named"
expect_exit 0 "$on_terminal" "$gptrain" report "$named"
says out 'run\x1b]0;x\x07: tiny'
expect_exit 2 "$gptrain" report $'no\033]0;x\007'
says err 'no\x1b]0;x\x07: no such output directory'
# So are the answers to prompts typed there.
: >view
{ wait_for view "> " && printf '\033]0;title\n\004'; } |
    timeout --signal=KILL 60 "$on_terminal" --talk "$gptrain" generate "$named" --max-tokens 8 --temperature 0 >view 2>err
if grep -aq $'\033' view; then fail "the answer to a typed prompt: $(cat -v view)"; fi

# Nothing is shown of a refused prompt.
expect_exit 2 "$on_terminal" "$gptrain" generate --checkpoint ids --prompt "5 six"
[[ ! -s out ]] || fail "a refused prompt is shown: $(cat out)"

# Text that a model learns is in colour, unless the terminal has no colours or the user wants none.
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

# sent COLUMNS TERM OUTPUT-DIR: writes the output of a training run on a terminal of this width to
# the file sent: one line each time that a line is written or rewritten.
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
