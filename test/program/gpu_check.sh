#!/usr/bin/env bash
# Usage: gpu_check.sh GPTRAIN GPT-PREPROCESS. How scripts/gpu_check.sh reports its parts, with
# stand-ins for the programs that it runs.
check=$(realpath "$(dirname "$0")/../../scripts/gpu_check.sh")
. "$(dirname "$0")/lib.sh"
export BUILD=$work/build
unset CUDA_VISIBLE_DEVICES GPTRAIN_CUDA_ATTENTION GPTRAIN_SHARE_GPU

# programs_that COMMANDS: makes all programs a script of these commands.
programs_that() {
    local entry
    for entry in app/gptrain data_tools/gpt-preprocess test/comm/test_comm test/comm/test_comm_gpu \
        test/gpu/test_gpu_ops test/gpu/test_gpu_model test/parallel/test_parallel_gpu \
        test/bench/bench_gpu; do
        mkdir -p "$(dirname "$BUILD/$entry")"
        printf '#!/bin/sh\n%s\n' "$1" >"$BUILD/$entry"
        chmod +x "$BUILD/$entry"
    done
}
# checked CODE OPTIONS...
checked() {
    timeout 60 "$check" --output results "${@:2}" >out 2>err
    (($? == $1)) || fail "not exit code $1: ${*:2}: $(tail -c 600 out err)"
}

programs_that 'exit 0'
checked 0 --only ops.l,model.p
says out "4 passed, 0 failed, 0 not run"
checked 0 --only ops.l
says out "2 passed, 0 failed, 0 not run" '"passed":2,"failed":0,"not_run":0'
says results/results.txt "ops.linear                passed"

programs_that 'echo "not run: there is none"; exit 77'
checked 77 --only ops.
says out "not run" "there is none" "0 passed, 0 failed"

programs_that 'exit 3'
checked 1 --only ops.l
says out "exit code 3; see log.txt" "0 passed, 2 failed, 0 not run"

# The exit code with which `timeout` reports that it ended a program.
programs_that 'exit 124'
checked 1 --only ops.l
says out "timed out" "0 passed, 2 failed, 0 not run"

# A sanitizer is slow: running out of time shows nothing, but what it found counts.
mkdir bin
sanitizer_that() {
    printf '#!/bin/sh\n%s\n' "$1" >bin/compute-sanitizer
    chmod +x bin/compute-sanitizer
}
sanitizer_that 'echo "========= Error: process did not end"; exit 124'
PATH=$work/bin:$PATH checked 77 --only sanitizer.mem
says out "sanitizer.memcheck        not run" "not done in 60 s" "0 passed, 0 failed, 1 not run"
sanitizer_that 'echo "========= Invalid __global__ write of size 4 bytes"; exit 124'
PATH=$work/bin:$PATH checked 1 --only sanitizer.mem
says out "faults within 60 s; see log.txt" "0 passed, 1 failed, 0 not run"
sanitizer_that 'echo "========= Error: Race reported between two accesses"; exit 42'
PATH=$work/bin:$PATH checked 1 --only sanitizer.racecheck
says out "exit code 42; see log.txt" "0 passed, 1 failed, 0 not run"

# A machine of two GPUs of compute capability 9.0.
cat >bin/nvidia-smi <<'END'
#!/bin/sh
case "$*" in
    *--list-gpus*) printf 'GPU 0: H100\nGPU 1: H100\n' ;;
    *compute_cap*) echo 9.0 ;;
    *) echo 'H100, 1, 2' ;;
esac
END
printf '#!/bin/sh\nshift 2; exec "$1"\n' >bin/mpirun
chmod +x bin/nvidia-smi bin/mpirun
programs_that 'echo "${0##*/}: ${GPTRAIN_CUDA_ATTENTION-own choice}, GPUs ${CUDA_VISIBLE_DEVICES-all}," \
    "sharing ${GPTRAIN_SHARE_GPU-0}" >>'"$work/seen"
# sees PART LINES...: the programs of a part report these lines on that machine.
sees() {
    local part=$1
    shift
    : >seen
    PATH=$work/bin:$PATH checked 0 --only "$part"
    printf '%s\n' "$@" >expected
    same seen expected
}
# The kernels for sm_90a run in their own parts only, and ranks share a GPU or have one each.
sees ops.linear "test_gpu_ops: portable, GPUs 0, sharing 0"
sees model.sm90 "test_gpu_model: sm90, GPUs 0, sharing 0"
sees messages.shared-2 "test_comm_gpu: portable, GPUs 0, sharing 1"
sees messages.nccl-2 "test_comm_gpu: portable, GPUs all, sharing 0"
CUDA_VISIBLE_DEVICES=3,5,6 sees meshes.shared-4 "test_parallel_gpu: portable, GPUs 3, sharing 1"
CUDA_VISIBLE_DEVICES=3,5,6 sees meshes.nccl-2 "test_parallel_gpu: portable, GPUs 3,5,6, sharing 0"
PATH=$work/bin:$PATH checked 77 --only meshes.nccl-4
says out "there are fewer GPUs than 4"
: >seen
PATH=$work/bin:$PATH checked 1 --only program.bits
says seen "gptrain: own choice, GPUs 0, sharing 0"

# Sanitizers too old for the kernels of sm_90a report races that do not exist.
sanitizer_that '[ "$1" != --version ] || exec echo "Version 2026.2.1.0"; echo "ran with $*"'
PATH=$work/bin:$PATH checked 77 --only races-sm90
says out "needs Compute Sanitizer 2026.3 or newer"
PATH=$work/bin:$PATH checked 77 --only sync-sm90
PATH=$work/bin:$PATH checked 0 --only sanitizer.sm90
says results/log.txt "ran with --tool memcheck --target"
PATH=$work/bin:$PATH checked 0 --only races-attention
says results/log.txt "--tool racecheck --num-cuda-barriers 64"
sanitizer_that '[ "$1" != --version ] || exec echo "Version 2026.10.0.0"; echo "ran with $*"'
PATH=$work/bin:$PATH checked 0 --only sm90
says results/log.txt "--tool synccheck --num-cuda-barriers 64"

# Each sanitizer checks only gptrain's kernels; the kernels for sm_90a have separate parts.
sanitizer_that '[ "$1" != --version ] || exec echo "Version 2026.3.0.0"
echo "$GPTRAIN_CUDA_ATTENTION $*" | sed "s#$BUILD/test/gpu/##" >>'"$work/seen"
options="--target-processes all --kernel-name kns=gptrain --report-api-errors no --error-exitcode 42"
memory="--tool memcheck $options test_gpu_ops"
races="--tool racecheck --num-cuda-barriers 64 $options test_gpu_ops"
barriers="--tool synccheck --num-cuda-barriers 64 $options test_gpu_ops"
sees sanitizer. \
    "sm90 $memory attention ops agree*" \
    "portable $memory attention ops agree*" \
    "portable $races norm and dropout ops agree*,norms of heads agree*" \
    "portable $memory ~[timing]~*attention*" \
    "portable $races attention ops agree*" \
    "sm90 $races attention ops agree*" \
    "portable $races ~[timing]~*attention*" \
    "portable $barriers *ops agree*" \
    "sm90 $barriers attention ops agree*"

# Every filter selects cases, and none that only take times; the CPU's program has the same ones,
# but for those of the GEMM kernel.
real=$(dirname "$gptrain")/../test/ops/test_ops
if [[ -x $real ]]; then
    grep -oE '("\$ops"|sanitize [a-z]+) "[^"]+"' "$check" | sed 's/.* "//; s/"$//' | grep -vF '[sm90-gemm]' |
        sort -u >filters
    (($(wc -l <filters) > 10)) || fail "the filters of gpu_check.sh: $(cat filters)"
    while read -r filter; do
        "$real" --list-tests "$filter" >listed 2>&1
        grep -qE '^[1-9][0-9]* matching test cases?$' listed || fail "$filter selects nothing"
        ! grep -q "timing: " listed || fail "$filter selects cases that take times"
    done <filters
fi

# A part that does not end leaves nothing behind.
programs_that 'sh -c "trap \"\" TERM; sleep 41.5" & sleep 30'
checked 77 --only ops.linear --seconds 5
! pgrep -f "sleep 41.5" >/dev/null || fail "a process of a part that was ended runs on"

# Ranks share the GPU over NCCL under MPS, which ends with each part, or without it.
programs_that 'echo "${0##*/}: GPUs $CUDA_VISIBLE_DEVICES, sharing ${GPTRAIN_SHARE_GPU-0}," \
    "MPS ${CUDA_MPS_PIPE_DIRECTORY+yes}" >>'"$work/seen"
mps_that() {
    printf '#!/bin/sh\n%s\n' "$1" >bin/nvidia-cuda-mps-control
    chmod +x bin/nvidia-cuda-mps-control
}
mps_that 'if [ "$1" = -d ]; then echo "MPS starts on GPU $CUDA_VISIBLE_DEVICES"; else echo "MPS: $(cat)"; fi >>'"$work/seen"
shared="GPUs 0, sharing nccl, MPS yes"
CUDA_VISIBLE_DEVICES=3 sees nccl-shared-4 \
    "MPS starts on GPU 3" "test_gpu_ops: $shared" "test_comm_gpu: $shared" "MPS: quit" \
    "MPS starts on GPU 3" "test_parallel_gpu: $shared" "MPS: quit"
mps_that 'exit 1'
CUDA_VISIBLE_DEVICES=3 sees messages.nccl-shared-8 "test_comm_gpu: GPUs 3, sharing nccl, MPS "
says results/log.txt "without MPS: ranks take turns"
# Copies need no MPS.
shared="GPUs 3, sharing peer, MPS "
CUDA_VISIBLE_DEVICES=3 sees peer-shared-4 "test_comm_gpu: $shared" "test_parallel_gpu: $shared"
# Where the first fails, the rest would fail too, perhaps slowly.
programs_that '[ "${0##*/}" != test_comm_gpu ] || exit 3'
PATH=$work/bin:$PATH checked 1 --only nccl-shared
says out "messages.nccl-shared-2    failed" "exit code 3; see log.txt (without MPS)" \
    "0 passed, 1 failed, 7 not run" "messages.nccl-shared-2 did not pass"
programs_that 'echo "not run: NCCL 2.28.9 cannot"; exit 77'
PATH=$work/bin:$PATH checked 77 --only messages.nccl-shared
says out "messages.nccl-shared-8    not run" "NCCL 2.28.9 cannot"

# --minutes: first what has never passed on hardware, then the rest, as far as the time goes.
programs_that 'exit 0'
PATH=$work/bin:$PATH checked 0 --minutes 1 --only ops.linear,shared-2,shared-8,mesh
awk '/ s  / { print $1, $2 }' results/results.txt >order
[[ $(head -n 4 order) == $'messages.peer-shared-2 passed\nmessages.peer-shared-8 passed\n'$'messages.nccl-shared-2 passed\nmessages.nccl-shared-8 passed' ]] ||
    fail "the order of --minutes: $(<order)"
[[ $(tail -n 1 order) == "messages.shared-8 passed" ]] || fail "the order of --minutes: $(<order)"
says results/results.txt "no time left: takes about 100 s of "
says order "ops.linear passed" "messages.shared-2 passed"

# The quarter of an hour: all experiments, then the checks, with the time that is left.
programs_that 'case ${0##*/}:$1 in
    bench_gpu:contention) echo "$3 held"; echo "{\"multiprocessors\":132}" ;;
    bench_gpu:step) [ "$*" != "step gpt2-124m --warm 3 --seconds 8" ] || exit 3
        echo "{\"step_time_s\":0.125}" ;;
    bench_gpu:*) echo "{}" ;;
esac
[ "${0##*/}" != bench_gpu ] || echo "$* ${GPTRAIN_GEMM_SMS-}${GPTRAIN_SM90_GEMMS+ours}" >>'"$work/seen"
: >seen
PATH=$work/bin:$PATH timeout 60 "$(dirname "$check")/gpu_quarter.sh" --minutes 1 --output quarter >out 2>err ||
    fail "gpu_quarter.sh: exit code $?: $(tail -c 600 out err)"
says seen "contention --held 0,24,16,8,2 " "contention --held 0,24 108" "contention --held 0,2 130" \
    "gemms " "step gpt2-124m --seconds 8 " "step gpt2-124m --seconds 8 ours" \
    "step llama-7b --layers 8 --microbatches 8 --recompute none --seconds 8 ours" "step gpt2-124m --not-deterministic --seconds 8" \
    "step gpt2-1.5b --micro-batch-size 16 --recompute none --seconds 8"
says quarter/experiments.txt "contention, GEMMs for 108: 0,24 held" "124M: 125.00 ms a step" \
    "124M, tuned at the clock under load: exit code 3"
(($(wc -l <quarter/experiments.jsonl) == 17)) || fail "results: $(<quarter/experiments.jsonl)"
says quarter/results.txt "messages.nccl-shared-8    passed" "sanitizer.races-others    not run"

# Parts that there was no time for have neither passed nor failed.
programs_that 'echo begun; sleep 30'
checked 77 --only ops.l --seconds 6
says out "no time left after" "0 passed, 0 failed, 2 not run"
says results/log.txt begun

finish
