#!/usr/bin/env bash
# Usage: injected_faults.sh GPTRAIN GPT-PREPROCESS MPIRUN. Every kind of fault that --inject knows,
# on one of several ranks: it is handled like a real one, and its rank is named.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/rank_lib.sh"
export OMP_NUM_THREADS=1
make_data
make_spec

# train_ranks CODE RANKS OUTPUT-DIR FAULT [KEY=VALUE...]
train_ranks() {
    settings output_dir="$3" parallel.data="$2" "${@:5}"
    printf 'seed: 7\nfaults: [{%s}]\n' "$4" >inject.yaml
    timeout --signal=KILL 60 "$mpirun" -n "$2" "$gptrain" train run.yaml --inject inject.yaml \
        "${set[@]}" >out 2>err
    local code=$?
    grep '^warning: ' err >warnings
    says warnings "fault_injection is on: 1 fault" "injected fault: rank 1: "
    ran "$1" $code "$2 ranks with $4"
}
lines() { grep -c '"loss"' "$1/metrics.jsonl"; }

# Mistakes in the file.
# wrong MESSAGE TEXT [KEY=VALUE...]: the file with this text ends the run at its start.
wrong() {
    settings output_dir=wrong "${@:3}"
    echo "$2" >inject.yaml
    expect_exit 2 "$gptrain" train run.yaml --inject inject.yaml "${set[@]}"
    says err "inject.yaml:$1"
    [[ ! -e wrong ]] || fail "$1: the run has begun"
}
wrong '1:1: faults: missing key' 'seed: 7'
wrong '1:11: faults.0.knid: unknown key; nearest: faults.0.kind' 'faults: [{knid: kill, step: 1}]'
wrong '1:38: fault_injection.faults.0.rank 1 is not on the mesh' 'faults: [{kind: kill, step: 1, rank: 1}]'
wrong ' the run spec has faults, too (fault_injection)' 'faults: [{kind: kill, step: 1}]' \
    'fault_injection={faults: [{kind: kill, step: 2}]}'

# The key that older specs have.
# mpirun, not gptrain, reports a rank that was killed: its exit code is 128 + the signal.
settings output_dir=killed parallel.data=2 checkpoint.async=false \
    "fault_injection={faults: [{kind: kill, rank: 1, step: 12}]}"
timeout --signal=KILL 60 "$mpirun" -n 2 "$gptrain" --config run.yaml "${set[@]}" >out 2>err
code=$?
((code == 137)) || fail "exit code $code of a launch with a killed rank"
says err "injected fault: rank 1: kill in action " "of step 12, "
(($(lines killed) <= 11)) || fail "step 12 was logged"
train 0 killed  # on one rank, and without the fault
says out "changed since the checkpoint: fault_injection: {" "resumed from" "after step 10" \
    "finished after step 20"
says killed/spec.yaml "fault_injection: none"

train_ranks 6 2 stopped "kind: stop, rank: 1, step: 3" faults.hang_seconds=2
says err "hang: rank 1 (dp 1 pp 0 cp 0 tp 0) on $(hostname)" "its process is stopped" "last seen in step 3"

train_ranks 1 2 bug "kind: error, rank: 1, step: 3"
says err "rank 1 (dp 1 pp 0 cp 0 tp 0) on $(hostname): injected error in action" "of step 3"

train_ranks 0 2 nan "kind: nan, rank: 1, step: 3"
tensor=$(sed -n 's/.*nan in step 3, element [0-9]* of the \(gradient of .*\)/\1/p' warnings)
[[ -n $tensor ]] || fail "no gradient is named: $(cat warnings)"
says warnings "step 3: non-finite loss or gradients (the $tensor); update skipped"
grep -q '^{"step": 20, "loss": [0-9].*"skipped_steps": 1, ' nan/metrics.jsonl ||
    fail "not one step was skipped: $(tail -n 1 nan/metrics.jsonl)"
expect_exit 0 "$gptrain" inspect nan/checkpoints --verify
# Where the fault strikes follows from the seed alone.
train_ranks 0 2 again "kind: nan, rank: 1, step: 3"
says warnings "$tensor"
history nan >a.history
history again >b.history
same a.history b.history

# A bit of a weight: found at the next comparison of weights, if it is in what persists until then.
four=(training.global_batch_size=4 data.num_samples=120)
train_ranks 1 4 flip "kind: bit_flip, rank: 1, step: 3" faults.replica_check_interval=1 "${four[@]}"
says err "step 3: ranks with replicas of the same weights differ: rank 1 (dp 1 pp 0 cp 0 tp 0) on "
train_ranks 1 4 lasting "kind: bit_flip, rank: 1, step: 5" faults.replica_check_interval=4 \
    parallel.shard_optimizer=false logging.interval=9 "${four[@]}"
says err "step 8: ranks with replicas of the same weights differ: rank 1 (dp 1 pp 0 cp 0 tp 0) on " \
    "after step 4 they were equal" "restart the run from scratch: no checkpoint is from before the difference"
# A later checkpoint may hold the fault: the one to go back to is named.
train_ranks 1 4 earlier "kind: bit_flip, rank: 1, step: 5" faults.replica_check_interval=4 \
    parallel.shard_optimizer=false checkpoint.interval=2 checkpoint.keep_last=5 "${four[@]}"
says err "step 8: ranks with replicas" "with --resume $PWD/earlier/checkpoints/step-000004"
[[ -d earlier/checkpoints/step-000006 ]] || fail "the save of step 6 was dropped: $(ls earlier/checkpoints)"

# A result that differs in the second run of a microbatch: rank 1 is named, and no other stage or
# replica. The seed draws a gradient of a weight, and one that goes to the first stage.
for stages in 1 2; do
    train_ranks 6 2 wrong-$stages "kind: miscompute, rank: 1, step: 5" faults.replay_interval=5 \
        parallel.data=$((2 / stages)) parallel.pipeline=$stages checkpoint.interval=3
    says warnings "injected fault: rank 1: miscompute in step 5, bit "
    grep -qE "^gptrain: error: rank 1 \([^)]*\) on $(hostname): two runs of a microbatch of step 5 gave" err ||
        fail "$stages stages: $(cat err)"
    says err "(faults.replay_interval); after step 3 they were equal: check these devices"
    [[ $(grep -c "may hold wrong values" err) == 0 && $(ls wrong-$stages/checkpoints) == step-000003 ]] ||
        fail "$stages stages: a checkpoint in doubt"
done

# In the first replay of a start nothing is known of earlier steps.
echo 'faults: [{kind: miscompute, step: 1}]' >inject.yaml
options=(--inject inject.yaml)
train 6 wrong-at-once faults.replay_interval=5
options=()
says err "gave different results (faults.replay_interval); this start has not trained a step yet: check these"

train_ranks 0 2 slow "kind: slow, rank: 1, step: 2, seconds: 0.03" training.steps=60
says warnings "rank 1 (dp 1 pp 0 cp 0 tp 0) on $(hostname) is slow: 0.0"

# A bug while a checkpoint is written: one rank finishes the save before it ends.
echo 'faults: [{kind: error, step: 11}]' >inject.yaml
options=(--inject inject.yaml)
train 1 unfinished checkpoint.interval=5
options=()
says err "injected error in action" "of step 11"
expect_exit 0 "$gptrain" inspect unfinished/checkpoints/step-000010 --verify

# In a save: a bug in the thread that writes, and a disk that fails once for one rank.
train_ranks 1 2 writer "kind: error, rank: 1, step: 10, call: 9"
says err "rank 1 (dp 1 pp 0 cp 0 tp 0) on " ": injected error in call 9 from step 10 on, "
train_ranks 0 2 failing "kind: io_error, rank: 1, step: 10, call: 9"
says warnings "rank 1 (dp 1 pp 0 cp 0 tp 0) on " "Input/output error; training continues"
[[ $(ls -A failing/checkpoints) == step-000020 ]] || fail "checkpoints: $(ls -A failing/checkpoints)"

# A disk that stays full: the third failed save in a row ends the run; earlier checkpoints stay.
train_ranks 5 2 full "kind: no_space, rank: 1, step: 5, call: 1, calls: 1000000" checkpoint.interval=4 \
    checkpoint.async=false
says err "rank 1 (dp 1 pp 0 cp 0 tp 0) on " "No space left on device"
[[ $(ls full/checkpoints | grep -x 'step-[0-9]*') == step-000004 ]] ||
    fail "checkpoints: $(ls -A full/checkpoints)"
expect_exit 0 "$gptrain" inspect full/checkpoints --verify
train 0 full
nothing_left full

finish
