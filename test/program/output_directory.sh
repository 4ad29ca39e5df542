#!/usr/bin/env bash
# The output directory belongs to one run; stdout belongs to whoever reads it.
. "$(dirname "$0")/lib.sh"
make_data
make_spec

# A second run there is refused while the first one runs, and does not disturb it.
start run training.steps=1000000000
wait_for run/metrics.jsonl '"step": 3,'
mv out first.out
mv err first.err
train 2 run
says err "$work/run" "in use" "$pid"
kill -0 "$pid" || fail "the first run has ended"
# Another directory is free, and so are commands that only read.
train 0 other training.steps=2
expect_exit 0 "$gptrain" inspect run/checkpoints
kill -TERM "$pid"
mv first.out out
mv first.err err
ends 75
train 0 run
says out "resumed from"
# A lock ends with its process, however that ends.
start killed training.steps=1000000000
wait_for killed/metrics.jsonl '"step": 3,'
kill -KILL "$pid"
{ wait "$pid"; } 2>/dev/null
train 0 killed

# After a restart by Slurm a start waits for a lock that is still held, however soon a hang is one.
mkdir held
flock held/.lock sleep 3 &
holder=$!
while flock --nonblock held/.lock true; do sleep 0.01; done
SLURM_RESTART_COUNT=1 train 0 held training.steps=2 faults.hang_seconds=1
says err "held: in use by" "waiting for up to 300 seconds"
(($(wc -l <err) == 1)) || fail "more than one line: $(cat err)"
wait $holder

# Paths that cannot be an output directory.
echo text >file
train 2 file
says err "$work/file"
[[ $(cat file) == text ]] || fail "the file was overwritten"
train 5 file/below
says err "file/below"
train 0 "new/folders/a space" training.steps=1
[[ -s "new/folders/a space/metrics.jsonl" ]] || fail "no output in a new folder"

# The reader goes away; the run continues.
settings output_dir=pipe
"$gptrain" --config run.yaml "${set[@]}" 2>err | head -n 1 >out
codes=("${PIPESTATUS[@]}")
check_exit 0 "${codes[0]}" "a run whose stdout was closed"
(($(grep -c '"loss"' pipe/metrics.jsonl) == 20)) || fail "the run stopped with its reader"
settings output_dir=closed
"$gptrain" --config run.yaml "${set[@]}" >&- 2>err
check_exit 0 $? "a run without stdout"
same "$(checkpoint pipe 20)/shard-00000.h5" "$(checkpoint closed 20)/shard-00000.h5"
"$gptrain" --config run.yaml --set output_dir=both >&- 2>&-
(($? == 0)) || fail "a run without stdout and stderr exits $?"
same "$(checkpoint pipe 20)/shard-00000.h5" "$(checkpoint both 20)/shard-00000.h5"
# No file takes the place of a closed descriptor: no file has foreign contents, and the run can
# resume.
"$gptrain" --config run.yaml --set output_dir=none --set training.steps=10 <&- >&- 2>&-
(($? == 0)) || fail "a run without stdin, stdout and stderr exits $?"
says none/metrics.jsonl '{"step": 10, "loss"'
if grep -v '^{' none/metrics.jsonl; then fail "foreign lines in metrics.jsonl"; fi
(($(wc -w <none/.lock) == 4)) || fail "the lock says: $(cat none/.lock)"
train 0 none
[[ ! -s err ]] || fail "a resumed run warns: $(cat err)"
same "$(checkpoint pipe 20)/shard-00000.h5" "$(checkpoint none 20)/shard-00000.h5"

# No bar and no control character if stdout is not a terminal.
train 0 plain training.eval_interval=5 training.eval_steps=4
if grep '[[:cntrl:]]' out err >controls; then fail "control characters: $(cat -v controls)"; fi
expect_exit 0 "$gptrain" eval --checkpoint plain --data text_text_document
if grep '[[:cntrl:]]' out err >controls; then fail "control characters of eval: $(cat -v controls)"; fi

# The directory disappears during a run: the state is saved in a new one, and the run continues
# there.
start gone training.steps=1000000000
wait_for gone/metrics.jsonl '"step": 13,'
mv gone taken
ends 5
says err "$work/gone: was deleted, emptied or replaced" "is saved there"
nothing_left gone
saved=$(newest_step gone)
((saved >= 13)) || fail "saved at step $saved"
train 0 gone training.steps=$((saved + 5))
says out "resumed from $(checkpoint "$work/gone" $saved)"
train 0 straight training.steps=$((saved + 5))
same "$(checkpoint gone $((saved + 5)))/shard-00000.h5" \
    "$(checkpoint straight $((saved + 5)))/shard-00000.h5"
# If another run has taken its place, that run is not disturbed.
start shared training.steps=1000000000
wait_for shared/metrics.jsonl '"step": 3,'
first=$pid
kill -STOP "$first"
mv shared taken-too
mv err first.err
start shared training.steps=1000000000
wait_for shared/metrics.jsonl '"step": 3,'
kill -CONT "$first"
wait "$first"
code=$?
mv err second.err
cp first.err err
check_exit 5 $code "a run whose place another has taken"
says err "was deleted, emptied or replaced" "could not be saved" "in use by process $pid"
kill -TERM "$pid"
cp second.err err
ends 75

# The same if only its files or its lock are deleted, after which another run could start there.
for lost in "spec.yaml metrics.jsonl" .lock; do
    rm -rf emptied
    start emptied training.steps=1000000000
    wait_for emptied/metrics.jsonl '"step": 13,'
    (cd emptied && rm $lost)
    ends 5
    says err "$work/emptied: was deleted, emptied or replaced" "is saved there"
    nothing_left emptied
    saved=$(newest_step emptied)
    ((saved >= 13)) || fail "without $lost: saved at step $saved"
    train 0 emptied training.steps=$((saved + 1))
    says out "resumed from $(checkpoint "$work/emptied" $saved)"
done

# A start that is refused removes the folders that it made, and no other.
mkdir there
for folder in there new-runs/a; do
    train 2 $folder training.micro_batch_size=4194304 training.global_batch_size=4194304
    says err memory
    [[ ! -e new-runs ]] || fail "a refused start leaves: $(find new-runs)"
done
[[ -d there ]] || fail "a refused start removed a folder that it had not made"

# Three checkpoints stay, and those of keep_every.
train 0 kept checkpoint.interval=2 checkpoint.keep_last=2 checkpoint.keep_every=6
[[ $(ls kept/checkpoints | paste -sd ' ') == "step-000006 step-000012 step-000018 step-000020" ]] ||
    fail "kept: $(ls kept/checkpoints)"

# The order of the samples is for everyone who may read the other files. The next start removes what
# a killed build of it left, also where nothing is built, unless that is of another node and young:
# that node may be building.
rm -rf kept/cache
(umask 022 && train 0 kept training.steps=21 checkpoint.keep_last=2)
order=$(echo kept/cache/order-*.index)
[[ $(stat -c %a $order) == 644 ]] || fail "$order has mode $(stat -c %a $order)"
sh -c 'echo $$' >ended  # the id of a process that is gone
here=$(<ended)-1-$(uname -n)
touch -d "2 hours ago" $order.tmp-1-1-elsewhere kept/cache/order-1.index.tmp-1-2-elsewhere
touch $order.tmp-1-3-elsewhere kept/cache/order-1.index.tmp-$here
train 0 kept training.steps=22 checkpoint.keep_last=2
[[ $(cd kept/cache && echo *.tmp-*) == "${order##*/}.tmp-1-3-elsewhere" && -s $order ]] ||
    fail "left: $(ls kept/cache)"

finish
