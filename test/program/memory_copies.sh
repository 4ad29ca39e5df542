#!/usr/bin/env bash
# A run with copies in memory, on the node's disk and in the output directory: the next start takes
# the newest that is whole, and of those in memory only what has not failed twice. Each ends with
# the bits of a run that nobody killed.
. "$(dirname "$0")/lib.sh"
make_data
make_spec
train 0 straight
copies=(checkpoint.interval=8 checkpoint.async=false checkpoint.memory=shm
    checkpoint.memory_interval=3 checkpoint.local=disk checkpoint.local_interval=5)

# dies STEP [KEY=VALUE...]: a start that is killed in that step. The steps after the newest copies
# take long enough for these to be complete.
dies() {
    settings output_dir=run "${copies[@]}" "${@:2}" \
        "fault_injection={faults: [{kind: kill, step: $1}, {kind: slow, step: 13, seconds: 0.3}]}"
    timeout --signal=KILL 60 "$gptrain" --config run.yaml "${set[@]}" >out 2>err
    (($? == 137)) || fail "nobody was killed: $(tail -n 3 err)"
}
# trains_on WORDS...: a start that trains to the end and says these words.
trains_on() {
    train 0 run "${copies[@]}"
    says out "$@"
    same "$(checkpoint straight 20)/shard-00000.h5" "$(checkpoint run 20)/shard-00000.h5"
    [[ -z $(ls shm) ]] || fail "copies are left in memory: $(find shm)"
}
warnings() {
    (($(grep -c '^warning: ' err) == $#)) || fail "not $# warnings: $(<err)"
    (($# == 0)) || says err "$@"
}

# Memory has step 12, the disk 10, the output directory 8.
dies 14
for folder in run shm disk; do cp -r $folder made-$folder; done
as_killed() {
    rm -rf run shm disk
    for folder in run shm disk; do cp -r made-$folder $folder; done
}
trains_on "resumed from $work/shm/" "after step 12 (copies in memory)" "the last start lost "
warnings

# A copy that has changed is not loaded; then the disk's is.
as_killed
damage() {
    local byte copy
    copy=$(ls "$1"/*/*/step-*/copy-00000.bin)
    byte=$(od -An -tu1 -j1000 -N1 "$copy")
    printf "\\x$(printf %x $((255 - byte)))" | dd of="$copy" bs=1 seek=1000 conv=notrunc status=none
}
damage shm
trains_on "after step 10 (local copies)"
warnings "; skipping the copies in memory of step 12"
as_killed
damage shm
damage disk
trains_on "/run/checkpoints/step-000008 after step 8"
says err "; skipping the local copies of step 10"

# After the same failure twice each tier gives way to the next.
as_killed
dies 14
says out "after step 12 (copies in memory)"
dies 14 checkpoint.memory_interval=100
says out "after step 10 (local copies)"
says err "the second one from the copies in memory of step 12; they are not used"
trains_on "/run/checkpoints/step-000008 after step 8"
warnings "the second one from the local copies of step 10; they are not used"
# Not after another one.
as_killed
dies 15
dies 14
says out "after step 12 (copies in memory)"
trains_on "after step 12 (copies in memory)"
warnings

# At the step of a checkpoint, which takes longer to load.
as_killed
dies 18 checkpoint.interval=15
trains_on "after step 15 (copies in memory)"

# Another mesh cannot use them.
as_killed
(cd shm/run-* && mv dp1-pp1-cp1-tp1 dp2-pp1-cp1-tp1)
trains_on "after step 10 (local copies)"
warnings "the copies in memory of step 12, which are of another mesh than dp1-pp1-cp1-tp1, are removed"

# The dry run counts them and reports what they save.
settings output_dir=run "${copies[@]}"
expect_exit 0 "$gptrain" --config run.yaml "${set[@]}" --dry-run
says out "  copies in memory " "host memory of a node with 1 rank: " "fits here" \
    "from copies in memory            3 steps" "from local copies                5 steps" \
    "from checkpoints                 8 steps"
planned=$(awk '$1 == "copies" { print $NF }' out)
bytes=$(stat --format=%s made-shm/*/*/step-000012-*/copy-00000.bin)
((planned >= 2 * bytes && planned < 3 * bytes)) || fail "$planned bytes for two of $bytes"
finish
