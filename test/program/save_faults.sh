#!/usr/bin/env bash
# Usage: save_faults.sh GPTRAIN GPT-PREPROCESS MPIRUN. Saves in which the n-th call that changes a
# checkpoint fails, does half its work, or is the last before the process is killed: no checkpoint
# is lost and no incomplete one is used. For a sample of n; for every n with GPTRAIN_SOAK=1.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/rank_lib.sh"
export OMP_NUM_THREADS=1
make_data
make_spec
stride=7
kinds=(no_space io_error short_write)
firsts=$(seq 1 3 12)
if soak; then
    stride=1
    firsts=$(seq 1 12)
fi
common=(checkpoint.keep_last=2 data.num_samples=100000 logging.tensorboard=false)

# train_ranks RANKS OUTPUT-DIR [KEY=VALUE...]: sets `code`.
train_ranks() {
    settings output_dir="$2" parallel.data="$1" "${common[@]}" "${@:3}"
    local launch=()
    (($1 == 1)) || launch=("$mpirun" -n "$1")
    # Keeps the shell from reporting killed processes.
    { timeout --signal=KILL 600 "${launch[@]}" "$gptrain" --config run.yaml "${set[@]}" >out 2>err; } \
        2>/dev/null
    code=$?
}

# half_read OUTPUT-DIR: how many committed checkpoints do not verify.
half_read() {
    local checkpoint damaged=0
    for checkpoint in $(ls "$1/checkpoints" 2>/dev/null | grep -x 'step-[0-9]*'); do
        "$gptrain" inspect "$1/checkpoints/$checkpoint" --verify >verified 2>&1 || damaged=$((damaged + 1))
    done
    echo $damaged
}

# calls RANKS RANK: sets `calls` to the number of the rank's calls in a save, the first one of a
# start with all its preparation, which also removes an old checkpoint.
calls() {
    rm -rf count
    train_ranks "$1" count training.steps=4 checkpoint.interval=2
    train_ranks "$1" count training.steps=6 checkpoint.interval=2 checkpoint.async=false \
        "fault_injection={faults: [{kind: kill, rank: $2, step: 5, call: 1000000}]}"
    calls=$(sed -n 's/.*did not strike: only \([0-9]*\) calls.*/\1/p' err)
    ((calls > 20)) || { fail "no calls were counted: $(cat err)" && finish; }
}

# ---- calls that fail -----------------------------------------------------------------------------

# failing RANKS RANK ASYNC KIND...: one run in which every fourth save has a failing call; the kinds
# take turns. Checkpoints of even steps are kept, including those of these saves.
failed_calls=0 failing_saves=0 lost=0 half=0 left=0
failing() {
    local kinds=("${@:4}") dir=failing n list='' step=0 count=0 hard=0 kind saved
    for ((n = 1; n <= calls; n += stride)); do
        kind=${kinds[count % ${#kinds[@]}]}
        step=$((step + 4))
        count=$((count + 1))
        [[ $kind == short_write ]] || hard=$((hard + 1))
        list+="${list:+, }{kind: $kind, rank: $2, step: $step, call: $n}"
    done
    rm -rf $dir
    train_ranks "$1" $dir training.steps=$((step + 4)) checkpoint.interval=1 checkpoint.keep_every=2 \
        checkpoint.async="$3" "fault_injection={faults: [$list]}"
    ((code == 0)) || fail "exit code $code of $*: $(grep '^gptrain' err)"
    (($(grep -c '^warning: injected fault: ' err) == count)) || fail "not $count faults: $*"
    says_not err "did not strike"
    says $dir/metrics.jsonl "{\"step\": $((step + 4)), \"loss\""
    local saves=$((step + 4)) good bad
    good=$(grep -c '^saved ' out)
    bad=$(grep -c 'training continues' err)
    ((good + bad == saves && bad <= hard)) || fail "of $saves saves $good good, $bad failed: $*"
    for saved in $(sed -n 's,^saved .*/step-0*\([0-9]*\): .*,\1,p' out); do
        ((saved % 2 != 0)) || [[ -d $(checkpoint $dir $saved) ]] || lost=$((lost + 1))
    done
    half=$((half + $(half_read $dir)))
    left=$((left + $(others $dir | wc -l)))
    failed_calls=$((failed_calls + count))
    failing_saves=$((failing_saves + bad))
    ((lost + half + left == 0)) || fail "$lost lost, $half half-read, $left left over: $*"
    ((failures == 0)) || finish
}

# first RANKS RANK: the first save of a run, which prepares all others, has a failing call; the
# second save makes up for it.
first() {
    local n dir=first
    for n in $firsts; do
        rm -rf $dir
        train_ranks "$1" $dir training.steps=4 checkpoint.interval=2 checkpoint.async=false \
            "fault_injection={faults: [{kind: io_error, rank: $2, step: 1, call: $n}]}"
        ((code == 0)) || fail "exit code $code with call $n of rank $2: $(grep '^gptrain' err)"
        says err "injected fault: rank $2: io_error in call $n "
        [[ -d $(checkpoint $dir 4) ]] || lost=$((lost + 1))
        half=$((half + $(half_read $dir)))
        left=$((left + $(others $dir | wc -l)))
        failed_calls=$((failed_calls + 1))
        failing_saves=$((failing_saves + $(grep -c 'training continues' err)))
        ((lost + half + left == 0)) || fail "$lost lost, $half half-read, $left left over: $n of $*"
    done
}

first 1 0
if soak; then
    first 2 0
    first 2 1
fi
for where in "1 0" "2 0" "2 1"; do
    read -r ranks rank <<<"$where"
    calls $ranks $rank
    for async in false true; do
        if soak; then
            for kind in "${kinds[@]}"; do failing $ranks $rank $async $kind; done
        else
            failing $ranks $rank $async "${kinds[@]}"
        fi
    done
done
proof write-failures "$failed_calls calls failed in ${#kinds[@]} ways, $failing_saves saves with" \
    "them: $lost checkpoints lost, $half half-read, $left files left over"

# ---- kills -----------------------------------------------------------------------------------------

# kill_at RANKS RANK N ASYNC: a run that resumes from the newest checkpoint, if there is one, and is
# killed at the n-th call of its first save, or later if that one has fewer.
kills=0 lost=0 half=0
kill_at() {
    local before after
    before=$(newest_step killed)
    train_ranks "$1" killed training.steps=1000000 checkpoint.interval=1 checkpoint.async="$4" \
        "fault_injection={faults: [{kind: kill, rank: $2, step: $((before + 1)), call: $3}]}"
    ((code == 137)) || fail "exit code $code of a run killed at call $3: $(cat err)"
    ((before == 0)) || grep -q "^resumed from .* after step $before\$" out || lost=$((lost + 1))
    after=$(newest_step killed)
    ((after >= before)) || lost=$((lost + 1))
    half=$((half + $(half_read killed)))
    kills=$((kills + 1))
    ((lost + half == 0)) || fail "$lost lost, $half half-read: killed at call $3, $4: $(head -n 3 out)"
    ((failures == 0)) || finish
}

for where in "1 0" "2 0" "2 1"; do
    read -r ranks rank <<<"$where"
    calls $ranks $rank
    rm -rf killed
    modes=(false true)
    step=$stride
    # Starting several ranks is slow.
    soak || ((ranks == 1)) || step=$((6 * stride))
    for ((n = 1; n <= calls; n += step)); do
        if soak; then
            for async in false true; do kill_at $ranks $rank $n $async; done
        else
            kill_at $ranks $rank $n "${modes[n % 2]}"
        fi
    done
    train_ranks $ranks killed training.steps=$(($(newest_step killed) + 2)) checkpoint.interval=1
    ((code == 0)) || fail "exit code $code after the kills"
    nothing_left killed
done
((kills > 20)) || fail "only $kills kills"
proof save-kills "$kills kills, each at another call of a save: $lost checkpoints lost," \
    "$half half-read"

finish
