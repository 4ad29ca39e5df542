#!/usr/bin/env bash
# Usage: gpu_faults.sh GPTRAIN GPT-PREPROCESS [MPIRUN]. Two ranks share a GPU, over NCCL or
# as GPTRAIN_SHARE_GPU says. One is stopped, or fails while messages are in flight: both end in time,
# with the exit code of the fault.
# GPTRAIN_TEST_DEVICE=cpu runs the script without a GPU.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/rank_lib.sh"
export GPTRAIN_SHARE_GPU=${GPTRAIN_SHARE_GPU:-nccl} OMP_NUM_THREADS=1
hang_seconds=10
make_data
GPTRAIN_TEST_DEVICE=${GPTRAIN_TEST_DEVICE:-cuda} make_spec
needs_gpu
needs_shared_gpu

# ends_in_time CODE KIND KEY=VALUE: on this mesh, rank 1 has the fault in step 3.
ends_in_time() {
    local launcher begin ms
    printf 'faults: [{kind: %s, rank: 1, step: 3}]\n' "$2" >inject.yaml
    settings output_dir="$2-${3//[.=]/-}" model.hidden_size=128 training.seq_length=128 \
        training.steps=1000 checkpoint.interval=0 faults.hang_seconds=$hang_seconds "$3"
    : >err
    timeout --signal=KILL 120 "$mpirun" -n 2 "$gptrain" train run.yaml --inject inject.yaml \
        "${set[@]}" >out 2>err &
    launcher=$!
    until grep -q "injected fault: rank 1: " err || ! kill -0 $launcher 2>/dev/null; do sleep 0.05; done
    begin=$(date +%s%N)
    end_ranks "$1" "$2 on $3"
    ms=$((($(date +%s%N) - begin) / 1000000))
    ((ms < (hang_seconds + 7) * 1000)) || fail "$2 on $3: ended after $ms ms"
    echo "$2 on $3: ended after $ms ms"
}
for mesh in parallel.data=2 parallel.pipeline=2; do
    ends_in_time 6 stop $mesh
    says err "hang: rank 1 " "its process is stopped"
done
for mesh in parallel.tensor=2 parallel.context=2; do
    ends_in_time 1 error $mesh
    says err "rank 1 " "injected error in action"
done

finish
