#!/usr/bin/env bash
# Usage: old_start.sh GPTRAIN GPT-PREPROCESS NO-LOCKS. A start stands still in a save, as on a node that is
# cut off. The next start does not find its lock, trains and saves. Then the first one goes on, and reaches
# the same files: it commits, logs, changes and removes nothing there, and exits 6.
. "$(dirname "$0")/lib.sh"
no_locks=$(realpath "$3")
make_data
make_spec
starts=0
settings=(training.steps=12 checkpoint.interval=2 checkpoint.keep_last=2 checkpoint.local=disk
    checkpoint.local_interval=1 logging.tensorboard=false)
# stops [CALL STEP]: the next start stops in that call of its save of that step.
stops() {
    options=()
    (($# == 0)) || options=(--inject faults.yaml)
    echo "faults: [{kind: stop, call: ${1:-}, step: ${2:-}}]" >faults.yaml
}
stands_still() {
    local i
    for ((i = 0; i < 3000; ++i)); do
        [[ $(ps -o stat= -p "$1") != T* ]] || return
        sleep 0.02
    done
    fail "process $1 does not stop: $(tail -n 3 err)"
}
# files: all that both starts can reach, with their checksums. Copies without a manifest are unfinished; the
# older start may leave one, which nobody takes and the next complete one replaces.
files() {
    find run $(find disk -name '*.manifest.json' -printf '%h ') | sort
    find run $(find disk -name '*.manifest.json' -printf '%h ') -type f -print0 | sort -z | xargs -0 md5sum
}

# The calls that change something in the save of step 6. The last ones rename the new checkpoint, sync the
# folder, rename the checkpoint of step 2, sync again, and remove its files and their folder.
stops 1000000 6
train 0 straight "${settings[@]}" checkpoint.async=false training.steps=6
calls=$(sed -n 's/.*did not strike: only \([0-9]*\) calls.*/\1/p' err)
removes=$((calls - $(ls straight/checkpoints/step-000006 | wc -l) - 2))
commits=$((removes - 2))
((commits > 10)) || { fail "calls: $(cat err)"; finish; }
stops
train 0 straight "${settings[@]}"
# numbers OUTPUT-DIR: what does not depend on how it saves.
numbers() { history "$1" | sed 's/"memory_bytes": [0-9]*, //'; }
numbers straight >expected

# one_of_two CALL WORDS ASYNC [CALL]: the older start stops in this call of its save of step 6, which these
# words describe (or, if saves are asynchronous, perhaps of the one before). While it goes on, the newer one
# stands in that call of its save of step 10, or has ended.
one_of_two() {
    local older newer code
    rm -rf run disk
    stops $1 6
    GPTRAIN_START=7.0.1 start run "${settings[@]}" checkpoint.async="$3"
    older=$pid
    stands_still "$older"
    says err "stop in call $1 from step 6 on, $2"
    mv err err.older
    stops ${4:+$4 10}
    GPTRAIN_START=7.0.2 LD_PRELOAD=$no_locks start run "${settings[@]}" checkpoint.async="$3"
    newer=$pid
    if [[ -n ${4:-} ]]; then stands_still "$newer"; else ends 0; fi
    files >before
    kill -CONT "$older"
    wait "$older"
    code=$?
    files >after
    same before after
    if [[ -n ${4:-} ]]; then
        kill -CONT "$newer"
        pid=$newer
        ends 0
    fi
    says out "resumed from" "finished after step 12"
    says_not err "training continues"
    mv err.older err
    check_exit 6 $code "the older start, stopped in call $1"
    says err "run: has been taken over by process $newer on $(hostname), start 7.0.2; this start of the run"
    numbers run >got
    same expected got
    same "$(checkpoint straight 12)/shard-00000.h5" "$(checkpoint run 12)/shard-00000.h5"
    expect_exit 0 "$gptrain" inspect run/checkpoints --verify
    nothing_left run
    starts=$((starts + 1))
}
if soak; then
    for ((i = 1; i <= calls; ++i)); do
        one_of_two $i "" false
        one_of_two $i "" true $i
    done
else
    one_of_two 1 "mkdir of " false
    one_of_two 1 "" true
    one_of_two $commits "rename of $work/run/checkpoints/step-000006.tmp-" false $((commits - 1))
    one_of_two $removes "rename of $work/run/checkpoints/step-000002" false
fi
proof two-starts "$starts starts that stood still in a save committed, logged, changed and removed nothing" \
    "when they went on after the next start had taken their place"

# An older start that did not get as far as the lock leaves it to the newer one.
stops
files >before
GPTRAIN_START=7.0.1 LD_PRELOAD=$no_locks train 6 run "${settings[@]}" training.steps=14
says err ".lock: has been taken by process " ", start 7.0.2, a later start of the job than this one"
files >after
same before after
GPTRAIN_START=7.1.1 train 0 run "${settings[@]}" training.steps=14

finish
