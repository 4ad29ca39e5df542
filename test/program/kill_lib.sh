# Shared by the scripts that kill runs, after lib.sh: checks after each kill, and counts.
kills=0
in_saves=0
lost=0
half_read=0
last=0  # the newest checkpoint after the last kill

# check_killed OUTPUT-DIR PID: checks a run that was just killed. PID is the process of its first
# rank; its stdout and stderr are in the files out and err.
check_killed() {
    local known newest
    kills=$((kills + 1))
    if compgen -G "$1/checkpoints/*.tmp-$2-*" >/dev/null; then in_saves=$((in_saves + 1)); fi
    says_not err "skipping checkpoint"
    newest=$(newest_step "$1")
    # The checkpoints from before, and those that the run reported as saved.
    known=$(sed -n 's/^saved .*step-0*\([0-9]*\): .*/\1/p' out | tail -n 1)
    if ((newest < last || newest < ${known:-0})); then
        lost=$((lost + 1))
        fail "the newest checkpoint is $newest, but there were $last and ${known:-none}"
    fi
    last=$newest
    expect_exit 0 "$gptrain" inspect "$1/checkpoints" --verify
    if grep -q damaged out; then
        half_read=$((half_read + 1))
        fail "damaged: $(grep damaged out)"
    fi
    ((newest == 0)) || grep -q "^{\"step\": $newest, \"loss\"" "$1/metrics.jsonl" ||
        fail "checkpoint $newest is there, its line in metrics.jsonl is not"
}

kill_figures() {
    echo "$kills kills, $in_saves of them in a save; $lost checkpoints lost, $half_read half-read"
}
