#!/usr/bin/env bash
# Checks on this machine's first GPU that gptrain computes what it should; measures nothing. Runs in
# a checkout with build/cuda, or in an unpacked bundle (scripts/bundle.sh).
#
#   scripts/gpu_check.sh [--output DIR] [--seconds N | --minutes N] [--only WORDS]
#
#   --output DIR   where results.txt, results.json and log.txt go (runs/gpu-check)
#   --seconds N    for all parts together (300)
#   --minutes N    the same in minutes, for the most news in that time: parts that have never passed
#                  on hardware come first, sanitizers still last, and a part that takes longer than
#                  what is left (by its estimate for an H100) makes way for the shorter ones after it
#   --only WORDS   the parts with one of these words, separated by commas, in their name alone
#   BUILD=DIR      the build folder, if not build/cuda
#
# The cheapest and most telling parts come first, each within its own limit. The limits are against
# hangs and add up to far more than --seconds: a part for which no time is left, or not enough, is
# "not run: no time left", which is no result; --seconds 3600 has time for all. A sanitizer, which
# is slow, is also "not run: not done" at its limit, unless it has found something by then. A line
# for each part goes to stdout and to results.txt as soon as it is known, a table, the counts and
# one line of JSON come last. Exit code 0: all that ran passed; 1: a part failed, or did not end
# within its limit; 77: nothing ran, because there is no GPU.
#
# Parts with "nccl-shared" in their name run several ranks on one GPU over NCCL 2.30 or newer (a
# bundle made with --nccl has one). The kernels of these ranks wait for each other, so they run under
# MPS (nvidia-cuda-mps-control) where it starts; elsewhere they take turns, which may take too long.
# Parts with "peer-shared" do the same by copies into each other's memory (parallel.peer).
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/programs.sh"
. "$(dirname "${BASH_SOURCE[0]}")/options.sh"

output=$root/runs/gpu-check
seconds=300
minutes=
only=
take_options output seconds minutes only -- "$@"
[[ -z $minutes ]] || seconds=$(awk "BEGIN { print int(60 * $minutes) }")

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
meshes=$(program test_parallel_gpu)
mpirun=mpirun
[[ ! -x $root/bin/mpirun ]] || mpirun=$root/bin/mpirun
export GPTRAIN_TEST_DATA=$root/test/model
# All parts see one GPU, except those of NCCL between GPUs.
all_gpus=${CUDA_VISIBLE_DEVICES-}
export CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=${all_gpus%%,*}
[[ -n $CUDA_VISIBLE_DEVICES ]] || CUDA_VISIBLE_DEVICES=0
# A fault of the attention kernels for sm_90a fails the parts named after them alone.
export GPTRAIN_CUDA_ATTENTION=portable
. "$root/test/openmpi.sh"

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
    # Older ones misjudge bulk copies that a transaction barrier counts.
    if [[ $1 != memcheck && $GPTRAIN_CUDA_ATTENTION == sm90 ]] &&
        ! "$sanitizer" --version | at_least 2026.3; then
        echo "not run: needs Compute Sanitizer 2026.3 or newer"
        return 77
    fi
    local code options=()
    # The tool may expect too few barriers of a block by itself.
    [[ $1 != racecheck && $1 != synccheck ]] || options=(--num-cuda-barriers 64)
    "$sanitizer" --tool "$1" "${options[@]}" --target-processes all --kernel-name kns=gptrain \
        --report-api-errors no --error-exitcode 42 "$target" "$2" 2>&1 | tee sanitizer.txt
    code=${PIPESTATUS[0]}
    if grep -q 'Device not supported\|not supported on this' sanitizer.txt; then
        echo "not run: compute-sanitizer refuses this device"
        return 77
    fi
    return "$code"
}

# at_least YEAR.NUMBER: true if stdin names such a version of the sanitizer, or a newer one.
at_least() {
    local version
    version=$(grep -oE '[0-9]{4}\.[0-9]+' | head -n 1)
    [[ -n $version && $(printf '%s\n' "$1" "$version" | sort -V | head -n 1) == "$1" ]]
}

# about_gpu QUERY: the answer of nvidia-smi about the GPU that the parts see.
about_gpu() {
    nvidia-smi --id="$CUDA_VISIBLE_DEVICES" --query-gpu="$1" --format=csv,noheader 2>/dev/null ||
        nvidia-smi --query-gpu="$1" --format=csv,noheader 2>/dev/null | head -n 1
}

# on_sm90 COMMAND...: with the attention kernels for sm_90a, on a GPU that has what they need.
on_sm90() {
    local capability
    capability=$(about_gpu compute_cap) || true
    if [[ $capability != 9.0 ]]; then
        echo "not run: nvidia-smi shows ${capability:-no GPU}, not compute capability 9.0"
        return 77
    fi
    export GPTRAIN_CUDA_ATTENTION=sm90
    "$@"
}

# as_users COMMAND...: with the attention kernels that the program chooses itself.
as_users() { env -u GPTRAIN_CUDA_ATTENTION "$@"; }

# of_ranks N PROGRAM ARGUMENTS...: as N ranks, which may share the GPU.
of_ranks() {
    (($1 == 1)) || export GPTRAIN_SHARE_GPU=1
    start_ranks "$@"
}

# on_gpus N PROGRAM ARGUMENTS...: as N ranks, each on a separate GPU.
on_gpus() {
    local count
    if [[ -n $all_gpus ]]; then
        count=$(tr , '\n' <<<"$all_gpus" | grep -c .)
        export CUDA_VISIBLE_DEVICES=$all_gpus
    else
        count=$(nvidia-smi --list-gpus 2>/dev/null | grep -c '^GPU')
        unset CUDA_VISIBLE_DEVICES
    fi
    if ((count < $1)); then
        echo "not run: there are fewer GPUs than $1"
        return 77
    fi
    start_ranks "$@"
}

# shared_over WAY COMMAND...: its ranks share the GPU, and send to each other over NCCL or by copies
# (peer). NCCL's kernels wait for each other, so they run under MPS where it starts.
shared_over() {
    if [[ -e failed.messages.$1-shared-2 ]]; then
        echo "not run: messages.$1-shared-2 did not pass"
        return 77
    fi
    export GPTRAIN_SHARE_GPU=$1
    [[ $1 != nccl ]] || under_mps || echo "without MPS: ranks take turns on the GPU"
    "${@:2}"
}

# under_mps: from now on kernels of several processes run at once on the GPU. False where MPS does not
# start, or a first program does not run under it. `part` ends MPS.
under_mps() {
    [[ ! -e no-mps ]] || return
    local visible=$CUDA_VISIBLE_DEVICES
    mkdir -p mps
    export CUDA_MPS_PIPE_DIRECTORY=$PWD/mps CUDA_MPS_LOG_DIRECTORY=$PWD/mps
    if nvidia-cuda-mps-control -d; then
        # The device that the daemon sees is number 0 of its clients.
        export CUDA_VISIBLE_DEVICES=0
        if [[ -e mps-runs ]] || timeout --kill-after=5 20 "$ops" "optimizer ops agree*"; then
            touch mps-runs
            return
        fi
    fi
    unset CUDA_MPS_PIPE_DIRECTORY CUDA_MPS_LOG_DIRECTORY
    export CUDA_VISIBLE_DEVICES=$visible
    touch no-mps
    return 1
}

# end_mps: if it runs.
end_mps() {
    local daemon=$scratch/mps/nvidia-cuda-mps-control.pid
    [[ -d $scratch/mps ]] || return 0
    if ! echo quit | CUDA_MPS_PIPE_DIRECTORY=$scratch/mps timeout --kill-after=1 5 nvidia-cuda-mps-control &&
        [[ -f $daemon ]]; then
        kill -KILL "$(cat "$daemon")" || true
    fi
    rm -rf "$scratch/mps"
}

start_ranks() { OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive "$mpirun" -n "$@" --abort; }

# found_by_sanitizer FILE: true if it reports a fault. The end of the program does not count.
found_by_sanitizer() { grep -qiE '^=+ (invalid|misaligned|barrier error|error: (race|potential))' "$1"; }

# chosen NAME: true if a word of --only is part of it, or --only is not given.
chosen() {
    local word words
    IFS=, read -ra words <<<"$only"
    [[ -n $only ]] || return 0
    for word in "${words[@]}"; do
        [[ $1 != *"$word"* ]] || return 0
    done
    return 1
}

parts=()
failed=0
left_out=0
passed=0
passed_on_gpu=0  # all but mpi
began=$SECONDS

# part NAME ESTIMATE LIMIT COMMAND...: estimate and limit are in seconds. The command's exit code 77
# means "not run", and its last line why.
part() {
    local name=$1 estimate=$2 limit=$3 left=$((seconds - (SECONDS - began)))
    local code=0 state why="" start cut="" group
    shift 3
    [[ -z $minutes || $round == "${is_new:-known}" ]] || return 0
    chosen "$name" || return 0
    start=$(date +%s.%N)
    echo "=== $name: $*" >>"$log"
    : >"$scratch/out"
    if ((left < 5)); then
        state="not run" why="no time left"
    elif [[ -n $minutes ]] && ((estimate > left)); then
        state="not run" why="no time left: takes about $estimate s of $left"
    else
        ((limit <= left)) || limit=$left cut=yes
        export -f sanitize at_least about_gpu on_sm90 as_users of_ranks on_gpus start_ranks \
            shared_over under_mps
        export root ops mpirun all_gpus
        # `timeout` makes a process group: processes left in it would keep the GPU busy.
        (cd "$scratch" && exec timeout --kill-after=5 "$limit" bash -c '"$@"' part "$@") \
            >"$scratch/out" 2>&1 &
        group=$!
        wait "$group" || code=$?
        kill -KILL -- "-$group" 2>/dev/null || true
        end_mps >>"$log" 2>&1
        cat "$scratch/out" >>"$log"
        case $code in
            0) state=passed ;;
            77) state="not run" why=$(sed -n 's/^not run: //p' "$scratch/out" | tail -n 1) ;;
            124 | 137)
                state="timed out" why="after $limit s"
                [[ $name != sanitizer.* ]] || state="not run" why="not done in $limit s"
                [[ -z $cut ]] || state="not run" why="no time left after $limit s"
                [[ $name != sanitizer.* ]] || ! found_by_sanitizer "$scratch/out" ||
                    state=failed why="faults within $limit s; see log.txt"
                ;;
            *) state=failed why="exit code $code; see log.txt" ;;
        esac
    fi
    if grep -q '^No test cases matched\|^No tests ran' "$scratch/out"; then
        state=failed why="no test case of that name"
    fi
    case $state in
        passed)
            passed=$((passed + 1))
            [[ $name == mpi ]] || passed_on_gpu=$((passed_on_gpu + 1))
            ;;
        failed | "timed out")
            failed=$((failed + 1))
            touch "$scratch/failed.$name"
            ! grep -q '^without MPS' "$scratch/out" || why+=" (without MPS)"
            ;;
        "not run") left_out=$((left_out + 1)) ;;
    esac
    local took
    took=$(awk -v a="$start" -v b="$(date +%s.%N)" 'BEGIN { printf "%.1f", b - a }')
    printf '%-25s %-9s %7s s  %s\n' "$name" "$state" "$took" "$why" | tee -a "$results"
    why=${why//\\/}
    parts+=("{\"part\":\"$name\",\"state\":\"$state\",\"seconds\":$took,\"why\":\"${why//\"/\'}\"}")
}

# new part ...: one that has not passed on hardware (docs/gpu-status.md), and is no sanitizer.
new() {
    local is_new=new
    "$@"
}

scratch=$(mktemp -d)
trap 'end_mps; rm -rf "$scratch"' EXIT

gpu=$(about_gpu name,driver_version,memory.total || true)
echo "gptrain $commit on ${gpu:-no GPU that nvidia-smi shows}" | tee -a "$results"

# Sanitizers come last: they are slow. "~[timing]" because Catch runs hidden cases where a filter only
# excludes.
all_parts() {
    part ops.optimizer 5 30 "$ops" "optimizer ops agree*"
    part ops.activation 5 30 "$ops" "activation ops agree*"
    part ops.norm 10 30 "$ops" "norm and dropout ops agree*,norms of heads agree*"
    part ops.embedding 5 30 "$ops" "embedding and position ops agree*"
    part ops.loss 5 30 "$ops" "loss ops agree*"
    part ops.fp8 5 30 "$ops" "FP8 ops agree*"
    # What cuBLASLt does with scales for blocks is assumed (cuda/gemm/gemm.h) until this has passed.
    new part ops.fp8-blocks 5 30 on_sm90 "$ops" "FP8 ops in blocks agree*"
    part ops.int8 5 30 "$ops" "int8 ops agree*"
    part model.pytorch 10 30 "$model" "[torch]"
    part ops.linear 20 60 "$ops" "linear ops agree*"
    part ops.gemm-sm90 20 60 on_sm90 "$ops" "[sm90-gemm]"
    part ops.attention 30 60 "$ops" "attention ops agree*"
    part ops.attention-sm90 20 60 on_sm90 "$ops" "attention ops agree*"
    part program.bits 90 180 as_users bash "$programs/gpu.sh" "$gptrain" "$preprocess"
    part mpi 10 30 of_ranks 2 "$comm"
    part messages.nccl 10 30 of_ranks 1 "$comm_gpu"
    part messages.shared-2 10 30 of_ranks 2 "$comm_gpu"
    part messages.shared-4 15 30 of_ranks 4 "$comm_gpu"
    part messages.shared-8 25 40 of_ranks 8 "$comm_gpu"
    new part messages.peer-shared-2 20 60 shared_over peer start_ranks 2 "$comm_gpu"
    new part messages.peer-shared-4 30 60 shared_over peer start_ranks 4 "$comm_gpu"
    new part messages.peer-shared-8 50 90 shared_over peer start_ranks 8 "$comm_gpu"
    new part messages.nccl-shared-2 20 60 shared_over nccl start_ranks 2 "$comm_gpu"
    new part messages.nccl-shared-4 30 60 shared_over nccl start_ranks 4 "$comm_gpu"
    new part messages.nccl-shared-8 50 90 shared_over nccl start_ranks 8 "$comm_gpu"
    new part messages.nccl-2 20 40 on_gpus 2 "$comm_gpu"
    new part messages.nccl-4 20 40 on_gpus 4 "$comm_gpu"
    new part messages.nccl-8 30 40 on_gpus 8 "$comm_gpu"
    part ops.others 30 60 "$ops" "~[timing]~*agree with the reference"
    part model.parity 40 60 "$model" "[gpu]"
    part model.sm90 40 60 on_sm90 "$model" "[gpu]"
    part model.modes 40 60 "$model" "~[gpu]~[torch]"
    part program.calibrate 70 240 as_users bash "$programs/gpu_calibrate.sh" "$gptrain" "$preprocess"
    part program.ranks 90 180 as_users bash "$programs/gpu_ranks.sh" "$gptrain" "$preprocess" "$mpirun"
    new part faults.nccl-shared 70 180 shared_over nccl as_users \
        bash "$programs/gpu_faults.sh" "$gptrain" "$preprocess" "$mpirun"
    new part program.nccl-shared 90 180 shared_over nccl as_users \
        bash "$programs/gpu_ranks.sh" "$gptrain" "$preprocess" "$mpirun"
    new part faults.peer-shared 70 180 shared_over peer as_users \
        bash "$programs/gpu_faults.sh" "$gptrain" "$preprocess" "$mpirun"
    new part program.peer-shared 90 180 shared_over peer as_users \
        bash "$programs/gpu_ranks.sh" "$gptrain" "$preprocess" "$mpirun"
    new part meshes.nccl-2 100 240 on_gpus 2 "$meshes"
    new part meshes.nccl-4 100 240 on_gpus 4 "$meshes"
    new part meshes.nccl-8 100 240 on_gpus 8 "$meshes"
    new part meshes.peer-shared-2 100 240 shared_over peer start_ranks 2 "$meshes"
    new part meshes.peer-shared-4 120 240 shared_over peer start_ranks 4 "$meshes"
    new part meshes.nccl-shared-2 100 240 shared_over nccl start_ranks 2 "$meshes"
    new part meshes.nccl-shared-4 120 240 shared_over nccl start_ranks 4 "$meshes"
    new part meshes.nccl-shared-8 150 240 shared_over nccl start_ranks 8 "$meshes"
    new part meshes.shared-2 100 240 of_ranks 2 "$meshes"
    new part meshes.shared-4 120 240 of_ranks 4 "$meshes"
    new part meshes.shared-8 150 240 of_ranks 8 "$meshes"
    part sanitizer.sm90 150 150 on_sm90 sanitize memcheck "attention ops agree*"
    part sanitizer.attention 150 150 sanitize memcheck "attention ops agree*"
    part sanitizer.racecheck 60 60 sanitize racecheck "norm and dropout ops agree*,norms of heads agree*"
    part sanitizer.memcheck 60 60 sanitize memcheck "~[timing]~*attention*"
    part sanitizer.races-attention 60 60 sanitize racecheck "attention ops agree*"
    part sanitizer.races-sm90 60 60 on_sm90 sanitize racecheck "attention ops agree*"
    part sanitizer.races-others 60 60 sanitize racecheck "~[timing]~*attention*"
    part sanitizer.synccheck 60 60 sanitize synccheck "*ops agree*"
    part sanitizer.sync-sm90 60 60 on_sm90 sanitize synccheck "attention ops agree*"
}

programs=$root/test/program
for round in new ${minutes:+known}; do  # without --minutes one round has all parts
    all_parts
done

printf '\ngptrain %s on %s\n' "$commit" "${gpu:-no GPU}"
sed 1d "$results"
echo "$passed passed, $failed failed, $left_out not run"
json=$(printf '{"check":"gpu","commit":"%s","gpu":"%s","passed":%d,"failed":%d,"not_run":%d,"parts":[%s]}' \
    "$commit" "$gpu" "$passed" "$failed" "$left_out" "$(IFS=,; echo "${parts[*]}")")
echo "$json" | tee "$output/results.json"
((failed == 0)) || exit 1
((passed_on_gpu > 0)) || exit 77
