#!/usr/bin/env bash
# A quarter of an hour on one GPU that shows the most: first experiments, which decide about changes
# that were only calculated so far, then gpu_check.sh, whose parts that never passed on hardware come
# first. Runs in a checkout with build/cuda, or in an unpacked bundle (scripts/bundle.sh --nccl).
#
#   scripts/gpu_quarter.sh [--minutes N] [--output DIR]
#
#   --minutes N    for all of it (15), of which experiments take three fifths at most
#   --output DIR   experiments.txt, experiments.jsonl (a line for each that ended) and the files of
#                  gpu_check.sh (runs/gpu-quarter)
#   BUILD=DIR      the build folder, if not build/cuda
#
# Exit code: that of gpu_check.sh. An experiment that fails or does not end is only reported.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/programs.sh"
. "$(dirname "${BASH_SOURCE[0]}")/options.sh"

minutes=15
output=$root/runs/gpu-quarter
take_options minutes output -- "$@"
mkdir -p "$output"
seconds=$((60 * minutes))
: >"$output/experiments.txt"
: >"$output/experiments.jsonl"

bench=$(program bench_gpu)
gptrain=$(program gptrain)
began=$SECONDS

say() { echo "$*" | tee -a "$output/experiments.txt"; }

# experiment NAME SECONDS COMMAND...: with a limit; the last line of stdout is its result.
experiment() {
    local name=$1 limit=$2 left=$((seconds * 3 / 5 - (SECONDS - began))) start=$SECONDS code=0
    shift 2
    ((limit <= left)) || limit=$left
    if ((limit < 5)); then
        say "$name: not run: no time left"
        return
    fi
    timeout --kill-after=5 "$limit" "$@" >"$output/last.txt" 2>&1 || code=$?
    if ((code == 0)); then
        sed '$d' "$output/last.txt" | sed "s/^/$name: /" | tee -a "$output/experiments.txt"
        result=$(tail -n 1 "$output/last.txt")
        echo "{\"experiment\":\"$name\",\"commit\":\"$commit\",\"result\":$result}" >>"$output/experiments.jsonl"
        say "$name: done in $((SECONDS - start)) s"
    else
        result=
        say "$name: exit code $code after $((SECONDS - start)) s: $(tail -n 1 "$output/last.txt")"
    fi
}

# step NAME ARGUMENTS...: whole training steps.
step() {
    local time
    experiment "$1" 80 "$bench" step "${@:2}" --seconds 8
    time=$(sed -n 's/.*"step_time_s":\([0-9.e+-]*\).*/\1/p' <<<"$result")
    [[ -z $time ]] || say "$1: $(awk "BEGIN { printf \"%.2f\", 1e3 * $time }") ms a step"
}

result=
say "gptrain $commit on $(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null |
    head -n 1 || true)"
choose_attention "$gptrain"

# GEMMs of gptrain and the recipes of FP8.
step "124M" gpt2-124m
GPTRAIN_SM90_GEMMS=1 step "124M, GEMMs of gptrain" gpt2-124m
step "124M, FP8 tensor" gpt2-124m --precision fp8 --fp8-recipe tensor
GPTRAIN_SM90_GEMMS=1 step "124M, FP8 block, GEMMs of gptrain" gpt2-124m --precision fp8 --fp8-recipe block
seven=(llama-7b --layers 8 --microbatches 8 --recompute none)
step "8 layers of 7B" "${seven[@]}"
GPTRAIN_SM90_GEMMS=1 step "8 layers of 7B, GEMMs of gptrain" "${seven[@]}"
GPTRAIN_SM90_GEMMS=1 step "8 layers of 7B, FP8 block, GEMMs of gptrain" "${seven[@]}" \
    --precision fp8 --fp8-recipe block
GPTRAIN_SM90_GEMMS=1 step "8 layers of 7B, FP8 block and gradients, GEMMs of gptrain" "${seven[@]}" \
    --precision fp8 --fp8-recipe block --fp8-weight-gradients fp8

# GEMMs beside messages, as they are and as if they had fewer multiprocessors.
held="24 16 8 2"
experiment contention 60 "$bench" contention --held "0,${held// /,}"
multiprocessors=$(sed -n 's/.*"multiprocessors":\([0-9]*\).*/\1/p' <<<"$result")
for blocks in ${multiprocessors:+$held}; do
    target=$((multiprocessors - blocks))
    experiment "contention, GEMMs for $target" 30 \
        env GPTRAIN_GEMM_SMS=$target "$bench" contention --held "0,$blocks"
done
experiment "workspace and residual" 60 "$bench" gemms
step "124M, tuned at the clock under load" gpt2-124m --warm 3
step "124M, deterministic: false" gpt2-124m --not-deterministic
step "1.5B, 32 sequences" gpt2-1.5b
step "1.5B, 16 sequences, recompute: none" gpt2-1.5b --micro-batch-size 16 --recompute none
rm -f "$output/last.txt"

left=$((seconds - (SECONDS - began)))
exec "$root/scripts/gpu_check.sh" --output "$output" \
    --minutes "$(awk "BEGIN { printf \"%.2f\", $left / 60 }")"
