#!/usr/bin/env bash
# Waiting threads of a run with long loops sleep soon: the run restarts itself once with
# GOMP_SPINCOUNT. Runs with short loops keep OpenMP's default, and so do users who set their own.
. "$(dirname "$0")/lib.sh"
unset OMP_WAIT_POLICY
make_data
make_spec

# environment_has NAME: the running program $pid was started with this variable.
environment_has() { tr '\0' '\n' <"/proc/$pid/environ" | grep "^$1="; }

# check_run NAME EXPECTED KEY=VALUE...: while it trains, GOMP_SPINCOUNT is as expected ("" if
# unset). A signal to the process that was started saves, and it resumes.
check_run() {
    local name=$1 expected=$2 found
    start "$name" training.steps=100000 "${@:3}"
    wait_for "$name/metrics.jsonl" '"step": 2'
    found=$(environment_has GOMP_SPINCOUNT)
    [[ $found == "$expected" ]] || fail "$name: '$found' instead of '$expected'"
    kill -TERM "$pid"
    ends 75
    (($(newest_step "$name") >= 2)) || fail "$name: nothing was saved"
}

# The smallest GEMM of a layer has 2 x 256 x 320 x 320 = 52 million FLOPs; the limit is 50 million.
long=(model.hidden_size=320 training.seq_length=128 training.micro_batch_size=2)
check_run short ""
check_run long GOMP_SPINCOUNT=4000 "${long[@]}"
GOMP_SPINCOUNT=123 check_run chosen GOMP_SPINCOUNT=123 "${long[@]}"
OMP_WAIT_POLICY=passive check_run policy "" "${long[@]}"
train 2 wrong training.steps=none "${long[@]}"

# Arguments survive the restart unchanged.
train 0 "a b  c" training.steps=1 name="'two  words'" "${long[@]}"
[[ -f "a b  c/metrics.jsonl" ]] || fail "another output directory: $(ls)"

finish
