#!/usr/bin/env bash
# Measures gptrain on this machine's first GPU, next to PyTorch where python3 has it. Runs in a
# checkout with build/cuda, or in an unpacked bundle (scripts/bundle.sh).
#
#   scripts/bench_gpu.sh MODEL [--microbatches N] [--precision P] [--recompute R] [--graphs]
#   scripts/bench_gpu.sh --sweep attention
#   scripts/bench_gpu.sh --kernels
#
#   MODEL             gpt2-124m (microbatches of 64 x 1024), gpt2-1.5b (32 x 1024) or gpt3-6.7b
#                     (4 x 2048; needs 116 GiB): whole training steps, data loading and optimizer
#                     included, after 3 seconds of GEMMs of 8192 x 8192, the ceiling of what can
#                     be reached
#   --sweep attention every compiled attention and each of PyTorch's, in the shapes of the models
#   --kernels         bandwidth of each memory-bound kernel and that of a copy
#   --microbatches N  of a step (1)
#   --precision P     bf16 or fp8 (bf16); PyTorch computes in bf16 in both cases
#   --recompute R     none, selective or full (the first that fits into the memory)
#   --graphs          replay recorded graphs
#   --no-torch        leave out PyTorch
#   --seconds N       for all of it (240)
#   --output DIR      also write the last line to DIR/bench.json and what was said to DIR/bench.log
#   PYTHON=...        the Python to look for PyTorch in (python3)
#   BUILD=DIR         the build folder, if not build/cuda
#
# A table and one line of JSON come last. A time is the median of up to 20 steps after 5; of fewer
# if steps are slow, as the table shows. PyTorch is measured even if gptrain fails (exit code 1).
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/options.sh"
. "$(dirname "${BASH_SOURCE[0]}")/programs.sh"

die() {
    echo "error: $*" >&2
    exit 2
}

model=
sweep=
kernels=
microbatches=1
precision=bf16
recompute=
graphs=
no_torch=
seconds=240
output=
take_options model= sweep kernels\? microbatches precision recompute graphs\? no_torch\? seconds output \
    -- "$@"
[[ -z $sweep || $sweep == attention ]] || die "--sweep $sweep: there is attention"
[[ -n $model$sweep$kernels ]] || die "which model? (--help lists them)"
step_options=(${graphs:+"$graphs"} ${recompute:+--recompute "$recompute"})

bench=$(program bench_gpu)
gptrain=$(program gptrain)
python=${PYTHON:-python3}
if [[ -z $no_torch ]] && ! "$python" -c 'import torch' 2>/dev/null; then
    echo "PyTorch: not run ($python does not have it)" >&2
    no_torch=true
fi
if [[ -n $output ]]; then
    mkdir -p "$output"
    exec > >(tee "$output/bench.log") 2>&1
    log_writer=$!
    # All has been written when this script ends, unless something it started holds on to stdout.
    trap 'exec >/dev/null 2>&1; timeout 5 tail -s 0.1 --pid="$log_writer" -f /dev/null || true' EXIT
fi
gpu=$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null | head -n 1 || true)
began=$SECONDS
# At least a second: `timeout 0` is no limit.
left() {
    local rest=$((seconds - (SECONDS - began)))
    echo $((rest > 1 ? rest : 1))
}

choose_attention "$gptrain"

# last_line COMMAND...: within the time left. All lines go to stderr, as they come.
last_line() {
    timeout --kill-after=5 "$(left)" "$@" | tee >(cat >&2) | tail -n 1
}

# measured COMMAND...: its last line; ends with it where it fails.
measured() {
    local code=0 line
    line=$(last_line "$@") || code=$?
    if ((code)); then
        echo "error: exit code $code: $*" >&2
        exit 1
    fi
    echo "$line"
}

# torch_measured ARGUMENTS...: the same from PyTorch, an empty object where it fails.
torch_measured() {
    local line
    if [[ -n $no_torch ]]; then
        line='{}'
    elif ! line=$(last_line "$python" "$root/scripts/bench_torch.py" "$@"); then
        echo "PyTorch: failed" >&2
        line='{}'
    fi
    echo "$line"
}

# value KEY JSON: of a key in an object; "-" if it is not there.
value() {
    local found
    found=$(sed -n "s/.*\"$1\": *\([^,}]*\).*/\1/p" <<<"$2" | head -n 1)
    found=${found//\"/}
    echo "${found:--}"
}

# calculate EXPRESSION: rounded; "-" where a number of it is not known.
calculate() {
    if [[ " $1 " == *" - "* || $1 == *null* ]]; then echo -; else awk "BEGIN { print $1 }"; fi
}
round() { calculate "sprintf(\"%.$1f\", $2 )"; }

finish() {
    local json=$1
    echo "$json"
    [[ -z $output ]] || echo "$json" >"$output/bench.json"
}
head_of_json="\"commit\":\"$commit\",\"gpu\":\"$gpu\""
mfu_formula="model FLOP/s over the device's peak: tokens/s x (6 x parameters + 6 x layers x hidden \
size x sequence length) / 989e12, the dense bf16 rate of an H100 or H200 SXM by its data sheet"

# attention_table JSON...: a line for each kernel, those of one shape together.
attention_table() {
    local row key line format='%-18s  %-18s %11s %9s %12s %9s\n'
    printf '\nattention, causal, bf16, %s, commit %s\n' "${gpu:-unknown GPU}" "$commit"
    printf "$format" shape kernel "forward, ms" TFLOP/s "backward, ms" TFLOP/s
    { grep -o '{[^{}]*"kernel"[^{}]*}' <<<"$*" || true; } | while read -r row; do
        line=("$(value shape "$row")" "$(value kernel "$row")")
        for key in forward backward; do
            line+=("$(round 3 "$(value ${key}_ms "$row")")")
            line+=("$(round 0 "$(value ${key}_tflops "$row")")")
        done
        printf "$format" "${line[@]}"
    done | sort -s -k 1,4
}

if [[ -n $kernels ]]; then
    ours=$(measured "$bench" kernels)
    finish "{\"bench\":\"gpu kernels\",$head_of_json,\"ours\":$ours}"
    exit
elif [[ -n $sweep ]]; then
    ours=$(measured "$bench" attention)
    theirs=$(torch_measured --sweep attention)
    attention_table "$ours" "$theirs"
    finish "{\"bench\":\"gpu attention\",$head_of_json,\"ours\":$ours,\"torch\":$theirs}"
    exit
fi

ceiling=$(measured "$bench" product --seconds 3)
# PyTorch compiles first, so it has the larger part of the time.
budget=$((seconds / 5))
failed=
ours=$(measured "$bench" step "$model" --microbatches "$microbatches" --precision "$precision" \
    --seconds "$budget" "${step_options[@]}") || { failed=yes ours='{}'; }
theirs=$(torch_measured --model "$model" --microbatches "$microbatches" --seconds "$budget" \
    --limit "$(left)")

ceiling_tflops=$(value product_tflops "$ceiling")
speed=$(value tokens_per_s "$ours")
torch_speed=$(value torch_tokens_per_s "$theirs")
ratio=$(calculate "sprintf(\"%.3f\", $speed / $torch_speed )")
of_ceiling=$(calculate "sprintf(\"%.1f\", 100 * $(value model_tflops "$ours") / $ceiling_tflops )")
torch_of_ceiling=$(calculate \
    "sprintf(\"%.1f\", 98900 * $(value torch_mfu "$theirs") / $ceiling_tflops )")

# row NAME OURS THEIRS
row() { printf '%-34s %14s %14s\n' "$1" "$2" "$3"; }
gib() { calculate "sprintf(\"%.1f\", $1 / 2^30 )"; }
printf '\n%s, %s microbatches of %s, %s\n' "$model" "$microbatches" "$(value shape "$ours")" \
    "${gpu:-unknown GPU}, commit $commit"
row "" gptrain PyTorch
row "version" "$commit" "$(value torch "$theirs")"
row "precision" "$precision" bf16
row "recomputation" "$(value recompute "$ours")" "$(value checkpointing "$theirs")"
row "attention, compilation" "own, -" "$(value sdpa "$theirs"), $(value compile "$theirs")"
row "timed steps" "$(value steps "$ours")" "$(value steps "$theirs")"
row "ms a step" "$(round 2 "1e3 * $(value step_time_s "$ours")")" \
    "$(round 2 "1e3 * $(value torch_step_time_s "$theirs")")"
row "tokens/s" "$(round 0 "$speed")" "$(round 0 "$torch_speed")"
row "against PyTorch" "$ratio" ""
row "MFU, %" "$(round 1 "100 * $(value mfu "$ours")")" "$(round 1 "100 * $(value torch_mfu "$theirs")")"
row "% of $(round 0 "$ceiling_tflops") TFLOP/s of GEMMs" "$of_ceiling" "$torch_of_ceiling"
row "memory, GiB: plan" "$(gib "$(value plan_device_bytes "$ours")")" ""
row "memory, GiB: taken" "$(gib "$(value taken_device_bytes "$ours")")" \
    "$(gib "$(value torch_peak_bytes "$theirs")")"
echo "MFU: $mfu_formula"
echo "ms a step by op:"
sed -n 's/.*"ms_by_op":{\([^}]*\)}.*/\1/p' <<<"$ours" | tr ',' '\n' | tr -d '"' |
    awk -F : '{ printf "    %-30s %14.3f\n", $1, $2 }' | sort -k 2,2 -n -r

finish "{\"bench\":\"gpu\",$head_of_json,\"ratio\":${ratio/#-/null},\"of_ceiling\":${of_ceiling/#-/null},\"mfu_formula\":\"$mfu_formula\",\"product\":$ceiling,\"ours\":$ours,\"torch\":$theirs}"
[[ -z $failed ]]
