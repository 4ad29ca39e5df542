#!/usr/bin/env bash
# Usage: gpu_ranks.sh GPTRAIN GPT-PREPROCESS [MPIRUN]. Several ranks that share a GPU compute what one
# rank computes.
. "$(dirname "$0")/lib.sh"
mpirun=${3:-mpirun}
command -v "$mpirun" >/dev/null || not_run "there is no $mpirun"
make_data
make_spec
cat >>run.yaml <<END
device: cuda
precision: {compute: fp32}
END
sizes=(model.hidden_size=128 training.seq_length=128 training.global_batch_size=8
    training.steps=5 checkpoint.interval=0)

needs_gpu

# losses OUTPUT-DIR
losses() { sed -n 's/.*"loss": \([^,]*\),.*/\1/p' "$1/metrics.jsonl"; }

train 0 one "${sizes[@]}"
losses one >one.losses
export GPTRAIN_SHARE_GPU=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1
for ranks in 2 4; do
    settings output_dir=ranks-$ranks "${sizes[@]}"
    timeout --signal=KILL 120 "$mpirun" -n $ranks "$gptrain" --config run.yaml "${set[@]}" \
        >out 2>err
    code=$?
    ((code == 0)) || { grep -q 'not built' err && not_run "$(grep -m 1 'not built' err)"; }
    ((code == 0)) || fail "exit code $code with $ranks ranks: $(tail -c 400 err)"
    losses ranks-$ranks >ranks.losses
    # Sums of other order in fp32.
    paste one.losses ranks.losses | awk '
        { difference = $1 > $2 ? $1 - $2 : $2 - $1; if (NF != 2 || difference > 1e-5 * $1) exit 1 }
        END { if (NR != 5) exit 1 }' || fail "$ranks ranks: $(paste one.losses ranks.losses)"
done

finish
