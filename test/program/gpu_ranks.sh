#!/usr/bin/env bash
# Usage: gpu_ranks.sh GPTRAIN GPT-PREPROCESS [MPIRUN]. Several ranks that share a GPU compute what
# one rank computes, along every axis of the mesh. GPTRAIN_TEST_DEVICE=cpu runs the script without a
# GPU.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/rank_lib.sh"
make_data
GPTRAIN_TEST_DEVICE=${GPTRAIN_TEST_DEVICE:-cuda} make_spec
cat >>run.yaml <<END
precision: {compute: fp32}
END
# With a smaller eps, gradients that are zero except for rounding would become full updates.
sizes=(model.hidden_size=128 training.seq_length=128 training.global_batch_size=8
    training.steps=5 checkpoint.interval=0 optimizer.eps=1.0e-3)

export GPTRAIN_SHARE_GPU=${GPTRAIN_SHARE_GPU:-1}
needs_gpu
needs_shared_gpu

# losses OUTPUT-DIR
losses() { sed -n 's/.*"loss": \([^,]*\),.*/\1/p' "$1/metrics.jsonl"; }

train 0 one "${sizes[@]}"
losses one >one.losses
meshes=(
    "2 data=2"
    "2 tensor=2"
    "2 pipeline=2"
    "2 context=2"
    "4 data=2 tensor=2 sequence_parallel=true"
    "4 pipeline=2 context=2"
)
for mesh in "${meshes[@]}"; do
    name=mesh-${mesh//[ =]/-}
    keys=()
    for key in ${mesh#* }; do keys+=("parallel.$key"); done
    settings output_dir="$name" "${sizes[@]}" "${keys[@]}"
    timeout --signal=KILL 120 "$mpirun" -n "${mesh%% *}" "$gptrain" --config run.yaml "${set[@]}" \
        >out 2>err
    ran 0 $? "$mesh"
    losses "$name" >ranks.losses
    # Sums in another order, in fp32.
    paste one.losses ranks.losses | awk '
        { difference = $1 > $2 ? $1 - $2 : $2 - $1; if (NF != 2 || difference > 1e-5 * $1) exit 1 }
        END { if (NR != 5) exit 1 }' || fail "$mesh: $(paste one.losses ranks.losses)"
done

finish
