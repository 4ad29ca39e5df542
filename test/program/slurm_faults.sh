#!/usr/bin/env bash
# Faults of ranks and nodes under the batch scripts of scripts/slurm/, in a real Slurm with three nodes:
# the run goes on in its allocation within 30 seconds, leaves no process behind, and computes what one
# computes that nothing happened to.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$script")/private_slurm.sh"
[[ ${3:-} == private ]] || run_privately
make_data
make_spec
sed -i 's/decay_steps: 20/decay_steps: 1000000/; s/interval: 10/interval: 4/; s/batch_size: 2/batch_size: 4/
    s/, steps: 20/, steps: 1000000/; s/^device: .*/device: auto/' run.yaml
echo 'faults: {hang_seconds: 6}' >>run.yaml
# In a soak, where a run takes an hour, its steps wait most of their time.
pace=0.05
if soak; then pace=0.3 && make_disk; fi
echo "faults: [{kind: slow, step: 1, seconds: $pace}]" >slow.yaml
start_slurm
ln -s "$(realpath "$(dirname "$script")/../../scripts")" scripts

# Each rank tells where it is. In the first start, one that is killed stays behind a shell that waits; in
# the second, one has a child that outlives it; in the fourth, one dies before it is a rank. A GPU of a node is lost
# while there is a file lost-NODE.
mkdir bin
cat >bin/nvidia-smi <<'END'
#!/usr/bin/env bash
[[ ! -e $WORK/lost-$(hostname) ]] || { echo "GPU 0000:3b:00.0: GPU is lost"; exit 15; }
echo 0
END
cat >bin/start_rank <<END
#!/usr/bin/env bash
[[ \$1 == --config && \$* != *--dry-run* ]] || exec "$gptrain" "\$@"
start=\${GPTRAIN_START#*.}
echo "start \$start: rank \$SLURM_PROCID on \$(hostname)"
[[ \$SLURM_PROCID/\$start != 1/0.2 ]] || setsid sleep 1000 >/dev/null 2>&1 &
[[ \$SLURM_PROCID/\$start != 3/0.4 ]] || kill -KILL \$\$
[[ \$start == 0.1 ]] || exec "$gptrain" "\$@" --inject slow.yaml
trap "" TERM USR1
"$gptrain" "\$@" --inject slow.yaml
sleep 1000
END
chmod +x bin/*
export WORK=$work PATH=$work/bin:$PATH GPTRAIN=$work/bin/start_rank OMP_NUM_THREADS=1
export GPTRAIN_HOST_SECONDS=15 GPTRAIN_LOOK_SECONDS=5

# submit NAME NODES [KEY=VALUE...]: a job that writes NAME.log and trains into NAME.
submit() {
    settings output_dir="$1" "${@:3}"
    job=$(sbatch --parsable --output="$1.log" --partition=three --nodes="$2" --no-kill --ntasks-per-node=2 \
        --oversubscribe scripts/slurm/many_nodes.sbatch run.yaml "${set[@]}" 2>err) ||
        { fail "sbatch: $(cat err)"; finish; }
    name=$1
}
job_says() { scontrol --oneliner show job "$1" | sed "s/.* $2=\([^ ]*\).*/\1/"; }
resumes() { grep -cs '^{"event": "resume"' $name/metrics.jsonl; }
# rank NUMBER: its process in the newest start.
rank() {
    grep -lz "^SLURM_PROCID=$1\$" $(grep -lzs '^GPTRAIN_START=' /proc/[0-9]*/environ) 2>/dev/null |
        cut -d / -f 3 | while read -r process; do
            [[ $(<"/proc/$process/comm") != gptrain ]] || echo "$process"
        done
}
# places: the nodes of the ranks of the newest start, as "n1 n1 n2 n2".
places() {
    local start
    start=$(grep -oE '^start [0-9.]+: rank' $name.log | tail -n 1)
    grep "^$start" $name.log | sed 's/.* on //' | sort | paste -sd ' '
}
# left_over: the processes of starts before the newest one.
left_over() {
    local start
    start=$(grep -oE '^start [0-9.]+: rank' $name.log | tail -n 1 | grep -oE '[0-9.]+')
    grep -lzs "^GPTRAIN_START=" /proc/[0-9]*/environ | xargs -r grep -LzsF "GPTRAIN_START=$job.$start"
}

survived=0 slowest=0
# survives SECONDS NODES FAULT...: the command FAULT, after a new checkpoint. The run trains again within these
# seconds, on these nodes (a pattern).
survives() {
    local before begun newest
    newest=$(newest_step $name)
    until (($(newest_step $name) > newest)); do sleep 0.1; done
    before=$(resumes)
    begun=$SECONDS
    "${@:3}"
    until (($(resumes) > before)) && tail -n 1 $name/metrics.jsonl | grep -q '"loss"'; do
        sleep 0.1
        ((SECONDS - begun < 120)) || { fail "${*:3}: no training after 120 s: $(tail -n 30 $name.log)"; finish; }
    done
    local seconds=$((SECONDS - begun))
    ((seconds <= $1)) || fail "${*:3}: training again after $seconds s, not $1"
    echo "${*:3}: training again after $seconds s"
    # Others wait for Slurm.
    (($1 > 60)) || slowest=$((seconds > slowest ? seconds : slowest))
    ((++survived))
    [[ $(places) == $2 ]] || fail "${*:3}: ranks on $(places), not $2"
    [[ -z $(left_over) ]] || fail "${*:3}: processes of earlier starts: $(left_over)"
    (($(pgrep -fc "^[^ ]*bash -c .*watch_host\.sh") == 1)) || fail "${*:3}: not one watcher"
}
signal_rank() { kill "-$1" $(rank "$2"); }
lose_gpu_and_rank() { touch "lost-$1" && signal_rank KILL "$2"; }

n1_and_n2="n1 n1 n2 n2" n1_and_n3="n1 n1 n3 n3"

# A rank dies; a node has lost a GPU, and the spare takes its place; a rank is stopped, and another one
# dies at once in the next start; a node is lost, and the one with two faults takes its place.
GPTRAIN_SPARES=1 submit faults 3
wait_for faults/metrics.jsonl '"step": 6,'
survives 30 "$n1_and_n2" signal_rank KILL 3
survives 30 "$n1_and_n3" lose_gpu_and_rank n2 2
rm lost-n2
survives 60 "$n1_and_n3" signal_rank STOP 1
lost=$(places)
lost=${lost##* }
survives 30 "$(printf '%s\n' n1 n1 n2 n2 n3 n3 | grep -vx "$lost" | paste -sd ' ')" lose_node "$lost"

# The node of the batch script is lost: the job goes back into the queue and comes back.
come_back() {
    start_node "$lost"
    lose_node n1
    until [[ $(job_says "$job" JobState) == PENDING ]]; do sleep 0.5; done
    start_node n1
}
survives 90 "*" come_back
(($(job_says "$job" Restarts) == 1)) || fail "$(job_says "$job" Restarts) restarts"
# Rank 0, which writes the log, a rank that crashes, and two at once.
survives 30 "*" signal_rank KILL 0
survives 30 "*" signal_rank SEGV 2
kill_two() { signal_rank KILL 1 && signal_rank KILL 3; }
survives 30 "*" kill_two
# stop: lets the job end after a step.
stop() {
    local most
    most=$(grep -oE '^\{"step": [0-9]+' "$name/metrics.jsonl" | grep -oE '[0-9]+' | sort -n | tail -n 1)
    wait_for "$name/metrics.jsonl" "\"step\": $((most + 2)),"
    touch "$name/STOP"
    until [[ $(job_says "$job" JobState) == COMPLETED ]]; do
        sleep 0.2
        [[ $(job_says "$job" JobState) != FAILED ]] || { fail "stopped: $(tail -n 30 $name.log)"; finish; }
    done
    [[ -z $(grep -lzs "^GPTRAIN_START=" /proc/[0-9]*/environ) ]] || fail "$name: processes are left"
}
# An srun that somebody stops goes on.
kill -STOP $(pgrep -f '^srun .* --config run\.yaml')
for ((i = 0; i < 50; ++i)); do
    pgrep --runstates T -f '^srun .* --config run\.yaml' >/dev/null || break
    sleep 0.1
done
((i < 50)) || fail "srun stays stopped"
stop

# same_as_straight NAME: a run that nothing has happened to has the same bits.
same_as_straight() {
    local last
    last=$(newest_step "$1")
    settings output_dir="straight-$1" training.steps="$last"
    srun --partition=three --nodes=2 --ntasks=4 --ntasks-per-node=2 --mpi=pmix "$gptrain" --config run.yaml \
        "${set[@]}" >out 2>err || fail "straight: $(tail -n 5 err)"
    same_run "straight-$1" "$1" "$last"
}
same_as_straight faults

# Without a spare the run goes on with one node, and with both when that is fit again.
GPTRAIN_MIN_NODES=1 submit fewer 2
wait_for fewer/metrics.jsonl '"step": 6,'
survives 30 "n1 n1" lose_gpu_and_rank n2 2
survives 30 "$n1_and_n2" rm lost-n2
stop
if soak; then
    . "$(dirname "$script")/random_faults.sh"
    GPTRAIN_SPARES=1 submit disk/often 3 checkpoint.keep_last=2 faults.hang_seconds=60
    wait_for disk/often/metrics.jsonl '"step": 6,'
    random_faults "${GPTRAIN_SOAK_FAULTS:-200}"
    number=$(wc -l <faults.measured)
    seconds=$(figures 2) again=$(figures 3) steps=$(figures 4)
    useful=$(tail -n 1 disk/often/metrics.jsonl | sed 's/.*"useful": \([0-9.]*\).*/\1/')
    after fault_of_two_hosts 180
    after fault_of_disk 180
    stop
    same_as_straight disk/often
    proof random-faults "$number faults in $spent s, of which $useful s of useful steps: training again after" \
        "$seconds s (median, 90 % and longest), $again ms of them since the ranks started, $steps steps repeated;" \
        "then two nodes at once, and a disk that stands still for 20 s; no process left over, the bits of a run" \
        "without faults"
fi
proof slurm-faults "$survived faults of ranks, GPUs and nodes: training again within $slowest s, on the nodes expected, no process left over, the bits of a run without faults"
finish
