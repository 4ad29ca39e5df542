#!/usr/bin/env bash
# Local copies belong to the course that a run has taken. Copies of a course that it has left are
# not used, wherever they come from.
. "$(dirname "$0")/lib.sh"
make_data
make_spec
train 0 straight

# A run with checkpoints of steps 5, 10, 15 and 18, and local copies of step 16. It logs none of
# these steps.
local=(checkpoint.interval=5 checkpoint.keep_last=10 checkpoint.async=false checkpoint.local=disk
    checkpoint.local_interval=4 logging.interval=7)
train 0 run "${local[@]}" training.steps=18
mv run made
mv disk made-disk
# made_without STEP...: the same, without these checkpoints.
made_without() {
    local step
    rm -rf run disk
    cp -r made run
    cp -r made-disk disk
    for step; do rm -r "$(checkpoint run "$step")"; done
}

made_without 18
cp -r disk away
train 0 run "${local[@]}"
says out "after step 16 (local copies)"
same "$(checkpoint straight 20)/shard-00000.h5" "$(checkpoint run 20)/shard-00000.h5"

# The run goes back to a checkpoint; a node that was away brings back its copies.
made_without 18
options=(--resume "$(checkpoint run 5)")
train 0 run "${local[@]}" training.steps=7
options=()
cp -r away/. disk
train 0 run "${local[@]}" training.steps=17
says out "after step 15"
says_not out "local copies)"

# Somebody goes back by removing checkpoints.
made_without 10 15 18
train 0 run "${local[@]}"
says out "after step 5"
says_not out "local copies)"
says err "warning: " "the local copies of step 16 were made after step-000015, which is gone"

# The checkpoints are away, as on a file system that is not mounted: no copy is removed.
made_without 18
mv run/checkpoints elsewhere
train 2 run "${local[@]}"
says err "checkpoints: has no checkpoint, but the local copies of step 16 were made after step-000015"
ln -s nowhere run/checkpoints
train 5 run "${local[@]}"
says err "run/checkpoints: is a link to nowhere, which does not exist"
rm run/checkpoints
mv elsewhere run/checkpoints
train 0 run "${local[@]}"
says out "after step 16 (local copies)"

# The output directory cannot record which copies count, so none are made.
made_without 18
if unshare --map-root-user --mount true 2>err; then
    cat >on_mount <<END
#!/usr/bin/env bash
mount --bind run/local-copies run/local-copies && exec "$gptrain" "\$@"
END
    chmod +x on_mount
    settings output_dir=run "${local[@]}"
    expect_exit 0 unshare --map-root-user --mount ./on_mount --config run.yaml "${set[@]}"
    says err "local-copies: Device or resource busy; no local copies are made until it can be written"
    same "$(checkpoint straight 20)/shard-00000.h5" "$(checkpoint run 20)/shard-00000.h5"
    [[ -z $(find disk -name '*.manifest.json' | grep -v step-000016) ]] || fail "copies: $(find disk)"
fi

# A start without local copies leaves earlier ones behind.
made_without 18
train 0 run checkpoint.interval=0 training.steps=16
rm -r "$(checkpoint run 16)"
train 0 run "${local[@]}" training.steps=17
says out "after step 15"
says_not out "local copies)"

# A start on another mesh cannot use the copies, and removes them.
made_without 18
(cd disk/run-* && mv dp1-pp1-cp1-tp1 dp2-pp1-cp1-tp1)
train 0 run "${local[@]}"
says err "the local copies of step 16, which are of another mesh than dp1-pp1-cp1-tp1, are removed"

# Another run in a new output directory of this name.
made_without
rm -r run
train 0 run "${local[@]}" optimizer.lr=0.02
says_not out resumed

# The copies were made by a program without courses.
made_without 18
rm run/local-copies
for save in disk/*/*/step-000016-*; do mv "$save" "${save%-*}-1732500000000000000"; done
train 0 run "${local[@]}"
says out "after step 16 (local copies)"
same "$(checkpoint straight 20)/shard-00000.h5" "$(checkpoint run 20)/shard-00000.h5"
# A folder that can never be made is refused before anything is written.
for folder in tok.model tok.model/copies nothing; do
    ln -sf missing nothing
    train 2 refused checkpoint.local=$folder
    says err "--set checkpoint.local: $work/${folder%/copies} is " "; give a folder on each node's own disk"
    [[ ! -e refused ]] || fail "a refused run has written"
done

finish
