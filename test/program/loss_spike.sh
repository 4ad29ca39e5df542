#!/usr/bin/env bash
# Losses above their limit: the step is skipped, rolled back, or ends the run; the same after a
# resume.
. "$(dirname "$0")/lib.sh"
make_data
make_spec
sed -i 's/interval: 10/interval: 5/' run.yaml
# With a factor of 1, every loss above the mean of the last four is a spike.
policy() { echo "faults.loss_spike={factor: $1, window: 4, action: $2}"; }

skipped() { sed -n 's/.*"skipped_steps": \([0-9]*\),.*/\1/p' "$1/metrics.jsonl" | tail -n 1; }

train 0 skip "$(policy 1.0 skip)"
(($(skipped skip) >= 1)) || fail "only $(skipped skip) steps were skipped"
says err "above" "faults.loss_spike" "update skipped"
says_not err "non-finite"
(($(grep -c '^{"event": "skip", "step": [0-9]*, "reason": "the loss, .*(faults.loss_spike)"}$' skip/metrics.jsonl) ==
    $(skipped skip))) || fail "not an event for each skipped step"
# Resumed just before a spike, which it can only see with the losses from before.
spike=$(sed -n 's/^{"event": "skip", "step": \([0-9]*\),.*/\1/p' skip/metrics.jsonl | head -n 1)
train 0 resumed "$(policy 1.0 skip)" training.steps=$((spike - 1))
train 0 resumed "$(policy 1.0 skip)"
same_run skip resumed 20
train 0 calm "$(policy 100.0 rollback)"
train 0 without
same_run calm without 20

# saved_at_end DIR: the run that has just ended with an error saved the state after its last step.
saved_at_end() {
    step=$(sed -n 's/.*; the state after step \([0-9]*\) is saved, and the same command continues.*/\1/p' err)
    [[ -n $step ]] || fail "no state is saved: $(cat err)"
    expect_exit 0 "$gptrain" inspect "$(checkpoint "$1" "$step")" --verify
}

# The run stops between two checkpoints: the newest is of the step of the spike, or of the one after
# it, which may have been under way. No earlier checkpoint has been removed for it.
train 4 stop "$(policy 1.0 stop)" checkpoint.interval=3 checkpoint.keep_last=2
says err "faults.loss_spike: stop" "is above" "--resume DIR goes back to an earlier checkpoint"
spike=$(sed -n 's/^gptrain: error: step \([0-9]*\):.*/\1/p' err)
saved_at_end stop
((spike > 6)) || fail "there are no two checkpoints before the spike in step $spike"
[[ -d $(checkpoint stop $(((spike - 1) / 3 * 3 - 3))) ]] || fail "an earlier checkpoint is gone: $(ls stop/checkpoints)"
train 0 stop "$(policy 100.0 stop)" checkpoint.interval=3 checkpoint.keep_last=2
says out "resumed from" "$(checkpoint stop "$step") after step $step"

# Back to the last checkpoint, then on with other samples, but not for ever.
train 4 back "$(policy 1.0 rollback)" faults.max_skipped_steps=3
says out "rolled back from step" "; skipping samples"
says err "faults.loss_spike: rollback" "after 3 rollbacks to the newest checkpoint"
(($(grep -c 'rolled back' out) == 3)) || fail "not three times: $(grep 'rolled back' out)"
(($(grep -c '"event": "resume", "step": [0-9]*, "rolled_back_from": [0-9]*}' back/metrics.jsonl) == 3)) ||
    fail "not three lines of resumption"
# Asked to stop in the step of a spike: the request has then been met.
spike=$(sed -n 's/^rolled back from step \([0-9]*\).*/\1/p' out | head -n 1)
start asked "$(policy 1.0 rollback)" \
    "fault_injection={faults: [{kind: slow, step: $spike, seconds: 1}]}"
wait_for asked/metrics.jsonl "\"step\": $((spike - 1)),"
touch asked/STOP
ends 0
says out "the file STOP" "rolled back from step $spike"
[[ ! -e asked/STOP ]] || fail "the file STOP is still there"
# A checkpoint in between restarts the count of rollbacks.
restless=("faults.loss_spike={factor: 1.0, window: 1, action: rollback}" checkpoint.interval=1 training.steps=19)
train 0 often "${restless[@]}" faults.max_skipped_steps=50
sed -n 's/^rolled back from step .* to \(.*\);.*/\1/p' out | sort | uniq -c >rollbacks
# This many rollbacks are enough: as many as to any one of them, and a skipped step.
enough=$(awk '{ all += $1 } $1 > most { most = $1 } END { print (all > most + 1 ? most + 1 : 0) }' rollbacks)
((enough)) || fail "too few rollbacks: $(cat rollbacks)"
train 0 as-often "${restless[@]}" faults.max_skipped_steps="$enough"
same_run often as-often 19
train 4 none "$(policy 1.0 rollback)" checkpoint.interval=0
says err "no checkpoint to roll back to"
saved_at_end none
# All checkpoints are damaged while the run continues.
start damaged "$(policy 1.0 rollback)" checkpoint.interval=5 checkpoint.keep_last=2 \
    "fault_injection={faults: [{kind: slow, step: 16, seconds: 1}]}"
wait_for damaged/checkpoints/step-000015/manifest.json .
truncate -c -s 100 damaged/checkpoints/*/manifest.json
ends 4
says err "no checkpoint can be loaded" "all 2 checkpoints"
saved_at_end damaged

# Not to a checkpoint of a course that the run has left, which may be of a later step.
train 0 left checkpoint.keep_last=10
settings output_dir=left "$(policy 1.0 rollback)" faults.max_skipped_steps=3 optimizer.lr=0.02 checkpoint.interval=0
"$gptrain" --config run.yaml "${set[@]}" --resume "$(checkpoint left 5)" >out 2>err
grep -q 'rolled back' out || fail "no rollback: $(cat out err)"
[[ -z $(grep 'rolled back' out | grep -v 'to left/checkpoints/step-000005;') ]] ||
    fail "to another checkpoint: $(grep 'rolled back' out)"

# A run that rolls back and then ends well is the same if it is stopped and resumed before that.
factor=
for candidate in 1.05 1.03 1.02 1.015 1.01 1.007 1.005 1.003; do
    rm -rf some
    settings output_dir=some "$(policy $candidate rollback)" faults.max_skipped_steps=20
    "$gptrain" --config run.yaml "${set[@]}" >out 2>err && grep -q 'rolled back' out && factor=$candidate && break
done
[[ -n $factor ]] || fail "no factor gives a run with a rollback that ends"
settings output_dir=again "$(policy $factor rollback)" faults.max_skipped_steps=20
options=(--set training.steps=12)
"$gptrain" --config run.yaml "${set[@]}" "${options[@]}" >out 2>err
options=()
train 0 again "$(policy $factor rollback)" faults.max_skipped_steps=20
same_run some again 20
if grep -q '"lost": 0}}' <(tail -n 1 some/metrics.jsonl); then fail "no time was lost"; fi

finish
