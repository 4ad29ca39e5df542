#!/usr/bin/env bash
# Checks on this machine's first GPU that gptrain computes what it should; measures nothing. Runs in
# a checkout with build/cuda, or in an unpacked bundle (scripts/bundle.sh).
#
#   scripts/gpu_check.sh [--output DIR] [--seconds N] [--only WORD]
#
#   --output DIR   where results.txt, results.json and log.txt go (runs/gpu-check)
#   --seconds N    for all parts together (300); what is left then is not run
#   --only WORD    the parts with this word in their name alone
#   BUILD=DIR      the build folder, if not build/cuda
#
# The cheapest parts come first, each within its own limit. A line for each goes to stdout and to
# results.txt as soon as it is known, a table and one line of JSON come last. Exit code 0: all that
# ran passed; 1: a part failed; 77: nothing ran, because there is no GPU.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/programs.sh"

output=$root/runs/gpu-check
seconds=300
only=
while (($#)); do
    case $1 in
        -h | --help)
            sed -n '2,/^set/{s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"
            exit 0
            ;;
        --output | --seconds | --only)
            (($# > 1)) || { echo "error: $1 needs a value" >&2 && exit 2; }
            printf -v "${1#--}" %s "$2"
            shift 2
            ;;
        *)
            echo "error: unknown option '$1' (--help lists them)" >&2
            exit 2
            ;;
    esac
done

mkdir -p "$output"
output=$(realpath "$output")
log=$output/log.txt
results=$output/results.txt
: >"$log"
: >"$results"

gptrain=$(program gptrain)
preprocess=$(program gpt-preprocess)
ops=$(program test_gpu_ops)
model=$(program test_gpu_model)
comm=$(program test_comm)
comm_gpu=$(program test_comm_gpu)
mpirun=mpirun
[[ ! -x $root/bin/mpirun ]] || mpirun=$root/bin/mpirun
export GPTRAIN_TEST_DATA=$root/test/model
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1
export OMPI_MCA_hwloc_base_binding_policy=none

# sanitize TOOL CASES: the tool on our own kernels, not on the libraries'.
sanitize() {
    local sanitizer target=$ops
    # The program itself, not what starts it in a bundle.
    [[ ! -f $root/libexec/test_gpu_ops ]] || target=$root/libexec/test_gpu_ops
    sanitizer=$(command -v compute-sanitizer || true)
    [[ -n $sanitizer ]] || sanitizer=/usr/local/cuda/bin/compute-sanitizer
    if [[ ! -x $sanitizer ]]; then
        echo "not run: there is no compute-sanitizer"
        return 77
    fi
    local code=0
    "$sanitizer" --tool "$1" --target-processes all --kernel-name kns=gptrain \
        --report-api-errors no --error-exitcode 42 "$target" "$2" >sanitizer.txt 2>&1 || code=$?
    cat sanitizer.txt
    if grep -q 'Device not supported\|not supported on this' sanitizer.txt; then
        echo "not run: compute-sanitizer refuses this device"
        return 77
    fi
    return "$code"
}

# on_sm90 COMMAND...: with the attention kernels for sm_90a, on a GPU that has what they need.
on_sm90() {
    if [[ $(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -n 1) != 9.0 ]]; then
        echo "not run: the GPU is not of compute capability 9.0"
        return 77
    fi
    export GPTRAIN_CUDA_ATTENTION=sm90
    "$@"
}

# of_ranks N PROGRAM ARGUMENTS...: as N ranks, which may share the GPU.
of_ranks() {
    (($1 == 1)) || export GPTRAIN_SHARE_GPU=1
    "$mpirun" -n "$@" --abort
}

parts=()
failed=0
passed=0  # but for mpi, which needs no GPU
began=$SECONDS

# part NAME LIMIT COMMAND...: the command's exit code 77 means "not run", and its last line why.
part() {
    local name=$1 limit=$2 left=$((seconds - (SECONDS - began))) code=0 state why="" start
    shift 2
    [[ $name == *"$only"* ]] || return 0
    start=$(date +%s.%N)
    echo "=== $name: $*" >>"$log"
    if ((left < 5)); then
        state="not run" why="no time left"
    else
        ((limit <= left)) || limit=$left
        # In a process group of its own, so that all that it started ends with it.
        export -f sanitize on_sm90 of_ranks
        export root ops mpirun
        (cd "$scratch" && timeout --kill-after=5 "$limit" bash -c '"$@"' part "$@") \
            >"$scratch/out" 2>&1 || code=$?
        cat "$scratch/out" >>"$log"
        case $code in
            0) state=passed ;;
            77) state="not run" why=$(sed -n 's/^not run: //p' "$scratch/out" | tail -n 1) ;;
            124 | 137) state="timed out" why="after $limit s" ;;
            *) state=failed why="exit code $code; see log.txt" ;;
        esac
    fi
    if grep -q '^No test cases matched\|^No tests ran' "$scratch/out"; then
        state=failed why="no test case of that name"
    fi
    # Under the sanitizer kernels are slower by an unknown factor: what it found counts, not that it
    # came to an end.
    case $state in
        passed) [[ $name == mpi ]] || passed=$((passed + 1)) ;;
        failed) failed=$((failed + 1)) ;;
        "timed out") [[ $name == sanitizer* ]] || failed=$((failed + 1)) ;;
    esac
    local took
    took=$(awk -v a="$start" -v b="$(date +%s.%N)" 'BEGIN { printf "%.1f", b - a }')
    printf '%-22s %-9s %7s s  %s\n' "$name" "$state" "$took" "$why" | tee -a "$results"
    why=${why//\\/}
    parts+=("{\"part\":\"$name\",\"state\":\"$state\",\"seconds\":$took,\"why\":\"${why//\"/\'}\"}")
}

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

gpu=$(nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2>/dev/null |
    head -n 1 || true)
echo "gptrain $commit on ${gpu:-no GPU that nvidia-smi shows}" | tee -a "$results"

part ops.optimizer 30 "$ops" "optimizer ops agree*"
part ops.activation 30 "$ops" "activation ops agree*"
part ops.norm 30 "$ops" "norm and dropout ops agree*"
part ops.embedding 30 "$ops" "embedding and position ops agree*"
part ops.loss 30 "$ops" "loss ops agree*"
part ops.linear 60 "$ops" "linear ops agree*"
part ops.float8 30 "$ops" "ops of 8-bit matrices agree*"
part ops.attention 60 env GPTRAIN_CUDA_ATTENTION=portable "$ops" "attention ops agree*"
part ops.attention-sm90 60 on_sm90 "$ops" "attention ops agree*"
part ops.others 60 "$ops" "~*agree with the reference"
part model.pytorch 30 "$model" "[torch]"
part model.parity 60 "$model" "[gpu]"
part model.sm90 60 on_sm90 "$model" "[gpu]"
part model.modes 60 "$model" "~[gpu]~[torch]"
part program.bits 90 bash "$root/test/program/gpu.sh" "$gptrain" "$preprocess"
part mpi 30 of_ranks 2 "$comm"
part messages.nccl 30 of_ranks 1 "$comm_gpu"
part messages.shared-2 30 of_ranks 2 "$comm_gpu"
part messages.shared-4 30 of_ranks 4 "$comm_gpu"
part program.ranks 60 bash "$root/test/program/gpu_ranks.sh" "$gptrain" "$preprocess" "$mpirun"
part sanitizer.memcheck 60 sanitize memcheck "~*attention*"
part sanitizer.attention 60 sanitize memcheck "attention ops agree*"
part sanitizer.sm90 60 on_sm90 sanitize memcheck "attention ops agree*"
part sanitizer.racecheck 60 sanitize racecheck "norm and dropout ops agree*"

printf '\ngptrain %s on %s\n' "$commit" "${gpu:-no GPU}"
sed 1d "$results"
json=$(printf '{"check":"gpu","commit":"%s","gpu":"%s","passed":%d,"failed":%d,"parts":[%s]}' \
    "$commit" "$gpu" "$passed" "$failed" "$(IFS=,; echo "${parts[*]}")")
echo "$json" | tee "$output/results.json"
((failed == 0)) || exit 1
((passed > 0)) || exit 77
