#!/usr/bin/env bash
# Usage: local_copies.sh GPTRAIN GPT-PREPROCESS MPIRUN. Ranks on two nodes (as OpenMPI is made to
# believe), each with its own disk, keep copies of their state there. A run that ends continues from
# them, with the bits of one that never ended, even if a node has lost its disk.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/rank_lib.sh"
export OMP_NUM_THREADS=1
unshare -m true 2>/dev/null || not_run "no mount namespaces here, which give each node its own disk"
make_data
make_spec

# A node sees its own disk at disk/. On node b the file $unreadable cannot be opened the first time.
cat >with-disk <<'END'
#!/bin/sh
mkdir -p "$work/disk-$node"
if [ -n "$unreadable" ] && [ "$node" = nodeb ]; then
    set -- strace -f -o /dev/null -P "$unreadable" -e trace=openat -e inject=openat:error=EIO:when=1 "$@"
fi
exec unshare -m sh -c 'mount --bind "$work/disk-$node" "$work/disk" && exec "$@"' sh "$@"
END
chmod +x with-disk
export work unreadable=
mkdir disk
two_nodes "$work/with-disk"

mesh=(parallel.data=2 parallel.tensor=2)
# run CODE OUTPUT-DIR [KEY=VALUE...]: four ranks on the two nodes.
run() {
    settings output_dir="$2" "${mesh[@]}" checkpoint.interval=0 training.steps=20 "${@:3}"
    timeout --signal=KILL 120 "$mpirun" "${two_nodes[@]}" -n 4 "$gptrain" --config run.yaml \
        "${set[@]}" >out 2>err
    local code=$?
    cp err all-err
    grep '^warning: ' err >warnings
    ran "$1" $code "run, ${*:2}"
}
local=(checkpoint.local="$work/disk" checkpoint.local_interval=5)
# Steps take long enough for the disk to finish at least the copies of step 5.
kill_at() {
    echo "fault_injection={faults: [{kind: kill, rank: 1, step: $1}," \
        "{kind: slow, step: 1, seconds: 0.1}]}"
}
# killed OUTPUT-DIR STEP: a rank dies in that step, and the launcher ends the others. Sets `step` to
# that of the newest complete copies.
killed() {
    settings output_dir="$1" "${mesh[@]}" checkpoint.interval=0 training.steps=20 "${local[@]}" \
        "$(kill_at "$2")"
    timeout --signal=KILL 120 "$mpirun" "${two_nodes[@]}" -n 4 "$gptrain" --config run.yaml \
        "${set[@]}" >out 2>err && fail "nobody was killed"
    local manifests
    manifests=$(ls -d disk-node[ab]/"$1"-*/*/step-*/*.manifest.json)
    step=$(sed -E 's/.*step-0*([0-9]+)-.*/\1/' <<<"$manifests" | sort -n | uniq -c |
        awk '$1 == 8 { print $2 }' | tail -n 1)
    [[ -n $step ]] || fail "no step has eight copies: $manifests"
}

run 0 whole
killed broken 14
((step == 5 || step == 10)) || fail "the copies are of step $step"

# The disks are as they were.
cp -r broken again && cp -r disk-nodea again-a && cp -r disk-nodeb again-b
export GPTRAIN_FAILED=$(($(date +%s) - 100))
run 0 broken "${local[@]}"
unset GPTRAIN_FAILED
says out "resumed from $work/disk/" "after step $step (local copies)" \
    "the last start lost " " of training, which is repeated"
# A table says where the time of the start went.
says out "start: " " s until the end of the first step" "  repeated  " "  since failure  "
grep -qE "^\{\"event\": \"start\", \"step\": $((step + 1)), \"seconds\": \{\"launch\": [0-9.]*[1-9].*, \
\"load\": [0-9.]*[1-9].*\"first_step\": .*\}, \"loaded\": \"local copies\", \"repeated\": .*, \
\"since_failure\": 1[0-9][0-9]" broken/metrics.jsonl || fail "$(grep start broken/metrics.jsonl)"
same_shards whole broken 20
(($(grep -c . warnings) == 0)) || fail "warnings: $(<warnings)"

# A node has been replaced by another one. Copies in memory have the layout of local ones, and leave
# nothing behind.
rm -rf disk-nodea disk-nodeb broken
mv again broken && mv again-a disk-nodea && mv again-b disk-nodeb
rm -rf disk-nodeb/*
run 0 broken checkpoint.memory="$work/disk" checkpoint.memory_interval=5
says out "after step $step (copies in memory, 2 of them from other nodes)"
same_shards whole broken 20
[[ -z $(ls -d disk-node[ab]/broken-* 2>/dev/null) ]] || fail "left in memory: $(ls disk-node[ab])"

# Copies that are older than the last checkpoint are not used, nor those of other meshes, nor
# those that have been damaged on both nodes.
killed later 14
run 0 later "${local[@]}" training.steps=12
run 0 later "${local[@]}"
says out "/later/checkpoints/step-000012 after step 12"
same_shards whole later 20

killed damaged 14
cp -r damaged again && cp -r disk-nodea again-a && cp -r disk-nodeb again-b
# damage NODE...: changes a byte in the copies of rank 2 there.
damage() {
    local node copy byte
    for node; do
        for copy in disk-node"$node"/damaged-*/*/step-*/copy-00002.bin; do
            byte=$(od -An -tu1 -j1000 -N1 "$copy")
            printf "\\x$(printf %x $((255 - byte)))" |
                dd of="$copy" bs=1 seek=1000 conv=notrunc status=none
        done
    done
}
# as_killed: everything is as it was after the rank died.
as_killed() {
    rm -rf disk-nodea disk-nodeb damaged
    cp -r again damaged && cp -r again-a disk-nodea && cp -r again-b disk-nodeb
}
damage b
run 0 damaged "${local[@]}"
says out "after step $step (local copies)"
says warnings "copy-00002.bin" "; taking the copy of another node"
same_shards whole damaged 20
if strace -o trace true 2>err; then
    as_killed
    unreadable=$work/disk/$(cd disk-nodeb && ls damaged-*/*/step-*"$step"-*/copy-00002.json)
    run 0 damaged "${local[@]}"
    unreadable=
    says out "after step $step (local copies)"
    says warnings "Input/output error; taking the copy of another node"
    same_shards whole damaged 20
fi
as_killed
damage a b
run 3 damaged "${local[@]}"
says err "the local copies of step $step are damaged, and the run has no checkpoint; remove them"
rm -rf disk-node[ab]/damaged-*
run 0 damaged "${local[@]}"
says_not out "resumed"
same_shards whole damaged 20

# A disk without room costs the copies, not the run.
mkdir -p disk-nodeb
: >disk-nodeb/full
run 0 full checkpoint.local="$work/disk/full" checkpoint.local_interval=5
says warnings "training continues without this local copy"
same_shards whole full 20
finish
