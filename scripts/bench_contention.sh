#!/usr/bin/env bash
# Measures how much of its speed training keeps on the CPU while a shell loop keeps one of the cores
# busy, for three ways in which waiting threads can wait: OpenMP's default, gptrain's, and always
# short (OMP_WAIT_POLICY=passive).
#
#   scripts/bench_contention.sh [--rounds N] [--seconds N]
#
#   --rounds N    times that all cases are measured, in turns (2)
#   --seconds N   how long each case trains, the first third untimed (15)
#   BUILD=...     a build folder (otherwise build/cpu is configured and built)
#
# Prints a line of JSON for each model and way of waiting: tokens/s relative to OpenMP's default on
# the machine that is otherwise idle, one number a round, without the loop and with it. A case's speed
# is the median of its steps.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/options.sh"

rounds=2
seconds=15
take_options rounds seconds -- "$@"
cd "$(dirname "${BASH_SOURCE[0]}")/.."

build=${BUILD:-build/cpu}
if [[ -z ${BUILD:-} ]]; then
    scripts/install_dependencies.sh >&2
    cmake --preset cpu >&2
    cmake --build "$build" --target gptrain gpt-preprocess >&2
fi
gptrain=$build/app/gptrain
preprocess=$build/data_tools/gpt-preprocess

work=$(mktemp -d)
loop=
trap '[[ -z $loop ]] || kill "$loop"; rm -rf "$work"' EXIT
cat README.md docs/*.md >"$work/text.txt"
{
    "$preprocess" train-tokenizer --input "$work/text.txt" --vocab-size 1024 --model-prefix "$work/text"
    "$preprocess" --input "$work/text.txt" --tokenizer "$work/text.json" --output-prefix "$work/text" \
        --append-eod
} >&2

declare -A settings=(
    [quickstart]=""
    [small]="--set model.num_layers=4 --set model.hidden_size=64 --set model.num_attention_heads=4
        --set model.ffn_hidden_size=176 --set training.seq_length=128 --set training.micro_batch_size=2"
)
declare -A environment=(
    [openmp]="GOMP_SPINCOUNT=300000"
    [gptrain]=""
    [passive]="OMP_WAIT_POLICY=passive"
)

# speed MODEL WAITING: median tokens/s.
speed() {
    rm -rf "$work/run"
    # shellcheck disable=SC2086
    timeout --signal=INT "$seconds" env ${environment[$2]} "$gptrain" --config configs/quickstart.yaml \
        --set "output_dir=$work/run" --set "data.train=[{prefix: $work/text_text_document}]" \
        --set "data.tokenizer=$work/text.json" --set model.vocab_size=1024 ${settings[$1]} \
        --set training.steps=1000000 --set training.eval_interval=0 --set logging.interval=1 \
        --set checkpoint.interval=1000000 >"$work/log" 2>&1 || true
    sed -n 's/.*"tokens_per_s": *\([0-9.e+]*\).*/\1/p' "$work/run/metrics.jsonl" |
        awk '{ all[NR] = $1 } END { for (i = int(NR / 3) + 1; i <= NR; ++i) print all[i] }' | sort -g |
        awk '{ all[NR] = $1 } END { if (NR) print all[int((NR + 1) / 2)]; else exit 1 }' ||
        { cat "$work/log" >&2 && return 1; }
}

with_loop() {
    while :; do :; done &
    loop=$!
    "$@"
    kill "$loop"
    wait "$loop" 2>/dev/null || true
    loop=
}

declare -A alone=() beside=()
for ((round = 0; round < rounds; ++round)); do
    for model in quickstart small; do
        for waiting in openmp gptrain passive; do
            now=$(speed "$model" "$waiting")
            [[ $waiting != openmp ]] || whole=$now
            alone[$model.$waiting]+=" $(awk "BEGIN { printf \"%.2f\", $now / $whole }")"
            with_loop speed "$model" "$waiting" >"$work/speed"
            beside[$model.$waiting]+=" $(awk "BEGIN { printf \"%.2f\", $(cat "$work/speed") / $whole }")"
            echo "$model $waiting: ${alone[$model.$waiting]}, beside a loop ${beside[$model.$waiting]}" >&2
        done
    done
done
# numbers LIST: as JSON.
numbers() { tr ' ' ',' <<<"[${1# }]"; }
for model in quickstart small; do
    for waiting in openmp gptrain passive; do
        printf '{"bench":"contention","model":"%s","waiting":"%s","alone":%s,"with_loop":%s}\n' \
            "$model" "$waiting" "$(numbers "${alone[$model.$waiting]}")" \
            "$(numbers "${beside[$model.$waiting]}")"
    done
done
