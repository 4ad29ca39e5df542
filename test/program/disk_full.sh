#!/usr/bin/env bash
# Failed writes: exit code 5, one line, and the earlier checkpoints unchanged.
. "$(dirname "$0")/lib.sh"
make_data
make_spec
train 0 small training.steps=10
cp -r small before

# A limit on file sizes, in KiB: enough for everything except the shard file.
shard=$(wc -c <"$(checkpoint small 10)/shard-00000.h5")
for setting in checkpoint.async=true checkpoint.async=false; do
    settings output_dir=small training.steps=20 $setting
    (
        ulimit -f $((shard / 2048))
        exec timeout --signal=KILL 60 "$gptrain" --config run.yaml "${set[@]}" >out 2>err
    )
    check_exit 5 $? "a run under ulimit -f, $setting"
    says err "small/checkpoints/step-000020" "File too large"
    (($(grep -o "File too large" err | wc -l) == 1)) || fail "not one reason: $(cat err)"
    [[ $(ls -A small/checkpoints) == step-000010 ]] || fail "checkpoints: $(ls -A small/checkpoints)"
    same "$(checkpoint small 10)/shard-00000.h5" "$(checkpoint before 10)/shard-00000.h5"
    grep -q '^{"step": 20, "loss"' small/metrics.jsonl || fail "the line of step 20 is lost"
done
train 0 small
train 0 straight
same_run straight small 20

# with_long_log DIR: makes an output directory whose metrics.jsonl is larger than any other file, so
# that a limit on file sizes (in KiB: $limit) stops it alone, in the middle of a line.
with_long_log() {
    mkdir "$1"
    head -c 1048575 /dev/zero | tr '\0' x >"$1/metrics.jsonl"
    echo >>"$1/metrics.jsonl"
}
limit=1026

# Metrics that cannot be written for a while are kept: training and saving continue, and no line is
# lost.
with_long_log late
settings output_dir=late training.steps=1000000 logging.tensorboard=false
(
    ulimit -S -f $limit
    exec "$gptrain" --config run.yaml "${set[@]}" >out 2>err
) &
pid=$!
wait_for err "late/metrics.jsonl: write: File too large; training continues"
touch late/SAVE
wait_for out "saved "
prlimit --pid "$pid" --fsize=unlimited
touch late/STOP
ends 0
(($(grep -c "File too large" err) == 1)) || fail "not one warning: $(cat err)"
last=$(newest_step late)
steps=$(sed -n 's/^{"step": \([0-9]*\), "loss".*}$/\1/p' late/metrics.jsonl)
[[ $steps == "$(seq "$last")" ]] || fail "not the lines of steps 1 to $last: $steps"
(($(grep -vc '^{.*}$' late/metrics.jsonl) == 1)) || fail "there are torn lines"

# If they cannot be written in the end either, that is an error, but the run is saved.
with_long_log never
settings output_dir=never logging.tensorboard=false
(
    ulimit -S -f $limit
    exec timeout --signal=KILL 60 "$gptrain" --config run.yaml "${set[@]}" >out 2>err
)
check_exit 5 $? "a run whose metrics cannot be written"
says err "never/metrics.jsonl: write: File too large; the end of this file is lost"
says out "finished after step 20"
expect_exit 0 "$gptrain" inspect "$(checkpoint never 20)" --verify

# No file can be written.
settings output_dir=tiny training.steps=20
(
    ulimit -f 2
    exec timeout --signal=KILL 60 "$gptrain" --config run.yaml "${set[@]}" >out 2>err
)
check_exit 5 $? "a run whose metrics are cut off"

# The order of the next pass over the data cannot be written: the run ends, but first saves.
train 0 passes training.steps=40 checkpoint.interval=0
train 0 halted training.steps=10 checkpoint.interval=0
for index in passes/cache/*.index; do
    name=halted/cache/${index##*/}
    [[ -e $name ]] || mkdir -p "$name/in-the-way"
done
train 5 halted training.steps=40 checkpoint.interval=0
says err "halted/cache" "the state after step 30 is saved"
rm -r halted/cache/*.index
train 0 halted training.steps=40 checkpoint.interval=0
says out "after step 30"
same_run passes halted 40

# The paths that a save needs are checked before the first step.
mkdir blocked
: >blocked/checkpoints
train 5 blocked
says err "blocked/checkpoints"
says_not out "step "

# in_mounts CODE MOUNTS OUTPUT-DIR OPTION...: a run in a mount namespace, after these mounts.
in_mounts() {
    settings output_dir="$3"
    expect_exit "$1" unshare --map-root-user --mount bash -c "$2"' && exec "$@"' bash \
        "${program:-$gptrain}" --config run.yaml "${set[@]}" "${@:4}"
}
if unshare --map-root-user --mount mount -t tmpfs -o size=16k none /dev/shm 2>/dev/null; then
    # /dev/shm and the folder for temporary files are full or read-only: no save needs them.
    memory="mount -t tmpfs -o size=16k none"
    away="mount --bind $(printf %q "$work") /mnt && cd /mnt && $memory /tmp && $memory /dev/shm"
    fill="head -c 16k /dev/zero >/tmp/file && head -c 16k /dev/zero >/dev/shm/file"
    lock="mount -o remount,ro /tmp && mount -o remount,ro /dev/shm"
    cp "$gptrain" gptrain  # it may lie below the folder for temporary files
    for state in fill lock; do
        program=./gptrain in_mounts 0 "unset TMPDIR && $away && ${!state}" $state
        [[ ! -s err ]] || fail "warnings: $(cat err)"
        same_run straight $state 20
    done
    # Where checkpoints cannot be saved, the run ends at its start. Without room it warns.
    mkdir -p fixed/checkpoints
    in_mounts 5 "mount --bind fixed/checkpoints fixed/checkpoints &&
        mount -o remount,bind,ro fixed/checkpoints" fixed
    says err "fixed/checkpoints" "Read-only file system"
    says_not out "step "
    mkdir -p small-disk/checkpoints
    in_mounts 5 "mount -t tmpfs -o size=16k none small-disk/checkpoints" small-disk
    says err "small-disk/checkpoints: a checkpoint takes " ", but the disk has only " \
        "small-disk/checkpoints/step-000020"
    # A picture that cannot be written costs a warning.
    mkdir pictures
    in_mounts 0 "$memory pictures && head -c 16k /dev/zero >pictures/file" drawn --timeline pictures/step.svg
    says err "warning: --timeline" "pictures/step.svg" "No space left on device; training continues"
    same_run straight drawn 20
else
    echo "skipped: no mount namespace"
fi

# A stdout that accepts nothing: the work is done, and the exit code reports the lost output.
untold() {
    timeout --signal=KILL 60 "$@" >/dev/full 2>err
    check_exit 5 $? "$* >/dev/full"
    says err "stdout: No space left on device"
}
settings output_dir=untold training.steps=2
for arguments in --help --version "eval --help" "inspect run.yaml" "inspect text_text_document" \
    "inspect small/checkpoints" "inspect $(checkpoint small 20)" "--config run.yaml --dry-run" \
    "--config run.yaml ${set[*]}" "generate --checkpoint small --prompt and --max-tokens 2" \
    "eval --checkpoint small --data text_text_document"; do
    untold "$gptrain" $arguments
done
expect_exit 0 "$gptrain" inspect untold/checkpoints --verify
says out "step-000002"

finish
