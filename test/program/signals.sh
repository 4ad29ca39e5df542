#!/usr/bin/env bash
# Usage: signals.sh GPTRAIN GPT-PREPROCESS MPIRUN. Outside the training loop a signal ends the
# programs within a second, whatever they do, and leaves no half-written file.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/rank_lib.sh"
make_data
make_spec

milliseconds() { echo $(($(date +%s%N) / 1000000)); }

# background COMMAND...: starts it as the process $pid.
background() {
    : >out
    "$@" >out 2>err &
    pid=$!
}

# ended SIGNAL CODE WHAT: the signal ends the process $pid with the code, in time. On a busy machine
# a process may have to wait for its turn: two seconds are allowed.
ended() {
    kill -0 "$pid" 2>/dev/null || fail "$3: over before the signal: $(tail -c 400 err)"
    local began code
    began=$(milliseconds)
    kill -"$1" "$pid"
    wait "$pid"
    code=$?
    local took=$(($(milliseconds) - began))
    ((code == $2)) || fail "$3: exit code $code instead of $2: $(tail -c 400 err)"
    ((took < 2000)) || fail "$3: $took ms after SIG$1"
    says err "SIG$1"
    (($(wc -l <err) == 1)) || fail "$3: not one line on stderr: $(head -c 800 err)"
}

deep=(model.num_layers=100000 model.hidden_size=2 model.num_attention_heads=1 data.tokenizer=none)
settings "${deep[@]}"
for signal in "TERM 143" "USR1 138" "HUP 129"; do
    background "$gptrain" --config run.yaml "${set[@]}" --dry-run
    sleep 0.3
    ended $signal "a dry run"
done

# A run can be started again: exit code 75.
for signal in TERM USR1 INT HUP; do
    start planned "${deep[@]}"
    wait_for planned/.lock process
    sleep 0.1
    ended $signal 75 "planning"
    says err "nothing is lost"
done

start indexed data.num_samples=20000000
for ((i = 0; i < 500; ++i)); do
    [[ -z $(ls indexed/cache 2>/dev/null) ]] || break
    sleep 0.01
done
ended TERM 75 "building an index"
[[ -z $(ls indexed/cache) ]] || fail "left in cache/: $(ls indexed/cache)"

start initialised model.hidden_size=1024 model.num_layers=8 model.num_attention_heads=8 \
    checkpoint.async=false
# Long before the weights exist: on a fast machine that takes a few tenths of a second.
wait_for out "output: "
ended TERM 75 "initialising"
[[ $(ls -A initialised/checkpoints 2>/dev/null) == "" ]] || fail "there is a checkpoint"

train 0 run training.steps=1 data.tokenizer=none model.position_embedding=rope \
    model.max_position_embeddings=10000
background "$gptrain" generate --checkpoint run --prompt "1 2 3" --max-tokens 300000
wait_for out " "
ended TERM 143 "generating"

make_text 2 300000 >large.txt
background "$preprocess" train-tokenizer --type unigram --input large.txt --vocab-size 400 --model-prefix large
sleep 0.3
ended TERM 143 "training a tokenizer"
background "$preprocess" --input large.txt --tokenizer tok.model --output-prefix large --workers 1
wait_for large_text_document.bin.tmp ""
ended TERM 143 "encoding"
[[ -z $(ls large_* large.model 2>/dev/null) ]] || fail "left over: $(ls large_* large.model)"

# Several ranks; one gets the signal.
start_ranks 2 ranks "${deep[@]}" parallel.data=2
wait_for ranks/.lock process
began=$(milliseconds)
kill -USR1 "$(pid_of 1 ranks)"
end_ranks 75 "planning on two ranks"
took=$(($(milliseconds) - began))
((took < 4000)) || fail "two ranks and their launcher took $took ms"

finish
