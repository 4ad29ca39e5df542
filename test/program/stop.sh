#!/usr/bin/env bash
# Signals and time limits: the step is finished and saved, exit code 75, and nothing is lost.
. "$(dirname "$0")/lib.sh"
make_data
make_spec
sed -i 's/decay_steps: 20/decay_steps: 1000000/; s/interval: 10/interval: 0/' run.yaml
endless=training.steps=1000000000

# Sets `last` to the step of the only checkpoint of a directory.
last_step() {
    local names
    names=$(ls "$1/checkpoints")
    [[ $names =~ ^step-0*([0-9]+)$ ]] || fail "checkpoints in $1: $names"
    last=${BASH_REMATCH[1]}
}

for signal in TERM USR1 INT HUP; do
    start stopped $endless
    wait_for stopped/metrics.jsonl '"step": 7,'
    kill -"$signal" "$pid"
    ends 75
    says out "SIG$signal"
    says err "warning: SIG$signal: the run saves after the current step and stops"
    last_step stopped
    (($(grep -c '"loss"' stopped/metrics.jsonl) == last)) || fail "the lines do not end at step $last"
    train 0 stopped training.steps=$((last + 5))
    train 0 straight training.steps=$((last + 5))
    same_run straight stopped $((last + 5))
    rm -r stopped straight
done

# A signal at the start, when there may be nothing to save yet.
for delay in 0 0.02 0.1; do
    rm -rf early
    start early $endless
    wait_for early/.lock process
    sleep $delay
    kill -USR1 "$pid"
    ends 75
done

# The file SAVE requests a checkpoint, STOP a checkpoint and the end; each is deleted once the
# checkpoint exists.
start asked $endless
wait_for asked/metrics.jsonl '"step": 7,'
touch asked/SAVE
for _ in {1..600}; do [[ -e asked/SAVE ]] || break; sleep 0.1; done
last_step asked
saved=$last
touch asked/STOP
ends 0
[[ ! -e asked/STOP ]] || fail "the file STOP is still there"
says out "the file STOP" "goodput"
rm -r "asked/checkpoints/$(printf 'step-%06d' "$saved")"
last_step asked
((last > saved)) || fail "stopped at step $last, saved at step $saved"
train 0 asked training.steps=$((last + 5))
train 0 straight training.steps=$((last + 5))
same_run straight asked $((last + 5))
rm -r asked straight

# If that checkpoint cannot be saved, training continues without a further request for it.
start refused $endless \
    "fault_injection={faults: [{kind: no_space, step: 7, call: 1}, {kind: slow, step: 7, seconds: 0.05}]}"
wait_for refused/metrics.jsonl '"step": 7,'
touch refused/SAVE
wait_for err "training continues"
[[ ! -e refused/SAVE ]] || fail "the file SAVE is still there"
touch refused/SAVE
wait_for out "saved "
touch refused/STOP
ends 0
[[ -z $(ls refused/SAVE refused/STOP 2>/dev/null) ]] || fail "a request is still there"
rm -r refused

# A signal cuts a long evaluation short; the resumed run makes it up, and may be stopped in it
# again.
long="$endless training.eval_interval=7 training.eval_steps=1000000"
start evaluating $long
wait_for evaluating/metrics.jsonl '"step": 7,'
sleep 0.2
kill -TERM "$pid"
ends 75
last_step evaluating
((last == 7)) || fail "stopped in the evaluation after step 7, but saved after step $last"
start evaluating $long
wait_for out "after step 7"
sleep 0.2
kill -TERM "$pid"
ends 75
start evaluating $long
wait_for out "after step 7"
touch evaluating/STOP
ends 0
[[ ! -e evaluating/STOP ]] || fail "the file STOP is still there"
says_not evaluating/metrics.jsonl val_loss
train 0 evaluating training.eval_interval=7 training.eval_steps=1 training.steps=10
says evaluating/metrics.jsonl '{"step": 7, "val_loss": '

# The same in a run's last evaluation: it is still due, so the exit code asks for another start.
closing="training.steps=7 training.eval_interval=100"
start closing $closing training.eval_steps=1000000
wait_for closing/metrics.jsonl '"step": 7,'
sleep 0.2
kill -TERM "$pid"
ends 75
says out "stopped (SIGTERM) after step 7: "
last_step closing
((last == 7)) || fail "stopped in the last evaluation, but saved after step $last"
says_not closing/metrics.jsonl val_loss
train 0 closing $closing training.eval_steps=1
says out "nothing left to do: the checkpoint has the run's last step, 7"
says closing/metrics.jsonl '{"step": 7, "val_loss": '

# Time limits, in a step and in an evaluation.
start limited faults.time_limit=2 $endless
ends 75
says out "time limit"
last_step limited
start limited faults.time_limit=2 $endless training.eval_interval=$((last + 1)) \
    training.eval_steps=1000000
ends 75
says out "time limit" "resumed from"
export SLURM_JOB_END_TIME=$(($(date +%s) + 2))
start limited faults.time_limit=auto $endless
ends 75
says out "time limit" "resumed from"
# A job without a time limit.
export SLURM_JOB_END_TIME=NONE
train 0 unlimited faults.time_limit=auto training.steps=2
unset SLURM_JOB_END_TIME
# Room is left for a save as long as the one that made the checkpoint.
train 0 long training.steps=3
edit_manifest "$(checkpoint long 3)" 's/"save_seconds":[^,}]*/"save_seconds":1000/'
says "$(checkpoint long 3)/manifest.json" '"save_seconds":1000'
train 75 long faults.time_limit=1500 $endless
says out "time limit" "stopped (the time limit) after step 4"
train 2 limited faults.time_limit=auto
says err faults.time_limit SLURM_JOB_END_TIME

finish
