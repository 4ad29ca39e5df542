#!/usr/bin/env bash
# A disk without space, as a file system in memory: needs the right to mount one.
. "$(dirname "$0")/lib.sh"
if [[ ${3:-} != inside ]]; then
    unshare --user --map-root-user --mount true 2>err || not_run "unshare: $(cat err)"
    cd /
    clean_up
    exec unshare --user --map-root-user --mount bash "$script" "$gptrain" "$preprocess" inside
fi
mkdir disk
mount -t tmpfs -o size=1m none disk 2>err || not_run "mount: $(cat err)"
make_data
make_spec
kept=0
for setting in checkpoint.async=true checkpoint.async=false; do
    train 5 disk/run training.steps=1000 checkpoint.interval=2 checkpoint.keep_last=1000 $setting
    says err "disk/run" "No space left on device"
    expect_exit 0 "$gptrain" inspect disk/run/checkpoints --verify
    says_not out damaged
    nothing_left disk/run
    kept=$((kept + $(ls disk/run/checkpoints | wc -l)))
done
# Once there is room again, the run continues.
names=(disk/run/checkpoints/*)
rm -r "${names[0]}"
last=${names[-1]##*-}
train 0 disk/run training.steps=$((10#$last + 1)) checkpoint.interval=0
says out "resumed from"
umount disk

proof full-disk "a file system of 1 MiB filled up twice: exit code 5 each time, all $kept checkpoints" \
    "verified, nothing half-written left; with room again the run went on"
finish
