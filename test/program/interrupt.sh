#!/usr/bin/env bash
# Usage: interrupt.sh GPTRAIN GPT-PREPROCESS MPIRUN. One rank, a different one each time, is told to
# stop in the middle of a step, for each of 20 steps (in the suite every fourth), on meshes of 2 and
# 4 ranks: one checkpoint, exit code 75, and the resumed run ends with the bits of an uninterrupted
# one.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/rank_lib.sh"
export OMP_NUM_THREADS=1
make_data
make_spec
# Steps long enough to hit, and a few more than the targets, for signals that come late.
sed -i 's/ steps: 20/ steps: 30/; s/interval: 10/interval: 0/; s/num_samples: 60/num_samples: auto/
    s/global_batch_size: 2/global_batch_size: 512/' run.yaml
stride=4
if soak; then stride=1; fi

# interrupt TARGET RANK SIGNAL: sets `step` to the interrupted step, usually the target.
interrupt() {
    start_ranks "$ranks" stopped "${mesh[@]}"
    wait_for stopped/spec.yaml num_layers
    local pid
    pid=$(pid_of "$2" stopped)
    (($1 == 1)) || wait_for stopped/metrics.jsonl "{\"step\": $(($1 - 1)),"
    kill -"$3" "$pid"
    end_ranks 75 "$ranks ranks, SIG$3 to rank $2 in step $1"
    says out "stopped (SIG$3)"
    step=$(newest_step stopped)
    [[ $(ls -A stopped/checkpoints) == "$(basename "$(checkpoint . "$step")")" ]] ||
        fail "not one checkpoint: $(ls -A stopped/checkpoints)"
    (($(grep -c '"loss"' stopped/metrics.jsonl) == step)) || fail "the lines do not end at step $step"
}

# A whole run that starts from the directory's contents.
resume() {
    train_ranks 0 "$ranks" stopped "${mesh[@]}"
    says out "after step $step" "finished after step 30"
    history whole >whole.history
    history stopped >stopped.history
    (($(grep -c loss whole.history) == 30)) || fail "$(grep -c loss whole.history) losses"
    same whole.history stopped.history
    same_shards whole stopped 30
}

interrupted=0
for words in "2 parallel.data=2 parallel.shard=weights training.micro_batch_size=8" "4 parallel.data=2 parallel.pipeline=2"; do
    read -ra mesh <<<"$words"
    ranks=${mesh[0]}
    mesh=("${mesh[@]:1}")
    rm -rf whole
    train_ranks 0 "$ranks" whole "${mesh[@]}"
    declare -A met=()
    for ((target = stride; target <= 20; target += stride)); do
        for ((try = 0; try < 10 && !${met[$target]:-0}; ++try)); do
            signal=TERM
            ((interrupted % 2 == 0)) || signal=USR1
            interrupt "$target" $((interrupted % ranks)) $signal
            resume
            rm -rf stopped
            met[$step]=1
            interrupted=$((interrupted + 1))
            ((failures < 5)) || finish
        done
        ((${met[$target]:-0})) || fail "step $target was not met"
    done
done

proof interrupted-steps "$interrupted runs of 2 and 4 ranks, stopped in each of $((20 / stride)) of 20" \
    "steps by a signal to one rank: $interrupted times exit code 75 and exactly one checkpoint," \
    "$interrupted resumed runs bit-equal to the uninterrupted one"
finish
