#!/usr/bin/env bash
# Usage: hang.sh GPTRAIN GPT-PREPROCESS MPIRUN ANSWER-AS-NCCL. A rank is stopped or killed in the
# middle of a run: all that can run exit with code 6, in time, and name it. A slow rank continues.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/rank_lib.sh"
export OMP_NUM_THREADS=1
nccl=$(realpath "$4")
hang_seconds=3
make_data
make_spec
# One sample order, made at the start: a rank that is stopped while it makes a later one holds the
# lock, and the others wait for that instead of for a message.
sizes=(training.global_batch_size=8 training.steps=1000000 checkpoint.interval=0
    data.num_samples=1000000 faults.hang_seconds=$hang_seconds)

# The command of each rank: files with its number hold its process and finally its exit code and
# time.
cat >rank.sh <<'END'
"$@" &
echo $! >pid.$OMPI_COMM_WORLD_RANK.new && mv pid.$OMPI_COMM_WORLD_RANK.new pid.$OMPI_COMM_WORLD_RANK
wait $!
code=$?
echo $code $(date +%s%N) >exit.$OMPI_COMM_WORLD_RANK
exit $code
END

# launch RANKS OUTPUT-DIR [KEY=VALUE...]: in the background, with the mpirun options in `how`, which
# by default make mpirun leave the ranks alone when one ends.
alone=(--enable-recovery)
how=("${alone[@]}")
launch() {
    local ranks=$1
    rm -f pid.* exit.*
    settings output_dir="$2" "${sizes[@]}" "${@:3}"
    "$mpirun" "${how[@]}" -n "$ranks" bash rank.sh "$gptrain" --config run.yaml \
        "${set[@]}" >out 2>err &
    launcher=$!
    wait_for "$2/metrics.jsonl" '"loss": '
}

signal() {
    local rank
    for rank in "${@:2}"; do kill "-$1" "$(<"pid.$rank")"; done
}

left=0
slowest=0  # of them, in ms

# leave RANKS...: they exit 6 within the deadline (`patience`) plus 5 seconds from now. Then ends the
# launch together with the ranks in `stopped`.
patience=$hang_seconds
leave() {
    local begun rank i code time ms
    begun=$(date +%s%N)
    for rank in "$@"; do
        for ((i = 0; i < 500; ++i)); do
            [[ ! -s exit.$rank ]] || break
            sleep 0.05
        done
        [[ -s exit.$rank ]] || { fail "rank $rank does not leave" && continue; }
        read -r code time <"exit.$rank"
        ((code == 6)) || fail "rank $rank: exit code $code"
        ms=$(((time - begun) / 1000000))
        ((ms < (patience + 5) * 1000)) || fail "rank $rank leaves after $ms ms"
        ((ms > (hang_seconds - 1) * 1000)) || fail "rank $rank leaves after $ms ms already"
        left=$((left + 1))
        ((ms <= slowest)) || slowest=$ms
    done
    signal KILL "${stopped[@]}" 2>/dev/null
    # With ranks on several nodes mpirun does not notice by itself that all have exited.
    for ((i = 0; i < 40; ++i)); do
        kill -0 $launcher 2>/dev/null || break
        sleep 0.05
    done
    kill $launcher 2>/dev/null
    wait $launcher
    grep '^gptrain: error: ' err >errors
    (($(wc -l <errors) == 1)) || fail "not one error: $(head -c 800 errors)"
}

# Two ranks, one stopped. Earlier steps were short, so the other one does not wait ten minutes, but
# five seconds, or up to fifteen on a crowded machine.
launch 2 two parallel.data=2 faults.hang_seconds=600
wait_for two/metrics.jsonl '"step": 10,'
sleep 3  # the watchdogs see six steps
stopped=(1)
signal STOP 1
patience=15
leave 0
patience=$hang_seconds
slowest=0  # from now on, with hang_seconds
says errors "hang: rank 1 (dp 1 pp 0 cp 0 tp 0) on $(hostname), process $(<pid.1)," \
    "its process is stopped" "last seen in step " \
    " s (far longer than before: faults.silence_factor)"
says err "warning: the run hangs; ranks are at:" "warning:   rank 0: step " " waits in " \
    "(no sign of life)"
[[ ! -e two/hang-nccl.txt ]] || fail "a report of NCCL in a run without it"

# Four ranks on another mesh; the lowest is stopped, and another one reports. Something answers in
# the place of NCCL.
"$nccl" >address &
answers=$!
wait_for address localhost
export NCCL_RAS_ADDR=$(<address)
launch 4 four parallel.pipeline=2 parallel.tensor=2
stopped=(0)
signal STOP 0
leave 1 2 3
says errors "hang: rank 0 (dp 0 pp 0 cp 0 tp 0)" "its process is stopped"
says err "warning: the run hangs; ranks are at:" "warning:   rank 0: step " "(no sign of life)" \
    "warning: NCCL's own report on the hang: $work/four/hang-nccl.txt"
printf 'Job summary\nrank 0 is behind\n' >expected
same four/hang-nccl.txt expected

# A rank of the second stage is killed, and no launcher ends the others. Whatever was to answer accepts, and
# is silent.
kill -STOP $answers
launch 4 killed parallel.data=2 parallel.pipeline=2
stopped=()
signal KILL 2
leave 0 1 3
says errors "hang: rank 2 (dp 0 pp 1 cp 0 tp 0)" "its process is gone"
[[ ! -e killed/hang-nccl.txt ]] || fail "an empty report of NCCL"
kill -KILL $answers
unset NCCL_RAS_ADDR

# With a launcher that does, nothing is left behind.
how=()
launch 2 ended parallel.data=2
signal KILL 1
for ((i = 0; i < 160; ++i)); do
    kill -0 "$(<pid.0)" 2>/dev/null || break
    sleep 0.05
done
kill -0 "$(<pid.0)" 2>/dev/null && fail "rank 0 goes on"
wait $launcher && fail "the launcher knows nothing of it"
how=("${alone[@]}")

# A rank that never looks for the others.
settings output_dir=alone parallel.data=2
GPTRAIN_CONNECT_SECONDS=2 "$mpirun" -n 1 "$gptrain" --config run.yaml "${set[@]}" : -n 1 sleep 20 >out 2>err
(($? == 6)) || fail "exit code $? of a rank that is alone"
says err "the ranks have not found each other within 2 s (GPTRAIN_CONNECT_SECONDS)"

# In the second save. The first checkpoint stays.
launch 2 saving parallel.data=2 checkpoint.interval=10 checkpoint.async=false \
    "fault_injection={faults: [{kind: stop, rank: 1, step: 20, call: 9}]}"
stopped=(1)
leave 0
says errors "hang: rank 1 " "last seen in save "
expect_exit 0 "$gptrain" inspect saving/checkpoints/step-000010

# The data cannot be read: another process holds the lock that the order of the next pass needs.
launch 2 data parallel.data=2 data.num_samples=1000
stopped=()
exec 9>data/cache/.lock
flock 9
leave 0 1
exec 9>&-
says errors "hang: rank 0 (dp 0 pp 0 cp 0 tp 0)" "is stuck and waits for no other rank" \
    "loading the batch"

# Slow, but alive: rank 1 runs a tenth of the time from the second step on. Rank 0 waits for it far longer
# than hang_seconds in a step, in one with a larger batch than ever before, in an evaluation and in a save.
launch 2 slow parallel.data=2 model.num_layers=4 model.hidden_size=256 training.global_batch_size=16 \
    "training.rampup={start: 8, increment: 8, samples: 8}" training.eval_interval=1 training.eval_steps=4 \
    checkpoint.interval=1 checkpoint.async=false
steps=$(newest_step slow)
for ((i = 0; i < 60; ++i)); do
    signal STOP 1
    sleep 0.9
    signal CONT 1
    sleep 0.1
    (($(newest_step slow) < steps + 2)) || break
done
[[ ! -e exit.0 && ! -e exit.1 ]] || fail "slow ranks are killed: $(tail -n 3 err)"
tail -n 4 slow/metrics.jsonl | sed -n 's/.*"step_time_s": \([0-9.]*\).*/\1/p' >times
awk -v limit=$hang_seconds '$1 < limit { exit 1 } END { exit !NR }' times || fail "not slow: $(cat times)"
signal TERM 0
wait $launcher
says exit.0 "75 "
says exit.1 "75 "

# Ranks on two nodes (as OpenMPI is made to believe); a whole node is stopped.
two_nodes
how+=("${two_nodes[@]}")
launch 4 nodes parallel.data=4
(($(ls nodes/cache/heartbeats | wc -l) == 2)) || fail "heartbeats: $(ls nodes/cache/heartbeats)"
stopped=(2 3)
signal STOP 2 3
leave 0 1
says errors "hang: rank 2 (dp 2 pp 0 cp 0 tp 0)" "shows no sign of life" "and 1 more"

# In the first step a rank may be silent for longer than hang_seconds. After a run that ends well no
# heartbeat files are left.
launch 4 nodes-done parallel.data=4 training.steps=1 \
    "fault_injection={faults: [{kind: slow, rank: 3, step: 1, seconds: $((2 * hang_seconds))}]}"
wait $launcher
[[ ! -e nodes-done/cache/heartbeats/node-0 ]] || fail "heartbeats are left"
(($(cat exit.* | grep -c '^0 ') == 4)) || fail "exit codes: $(cat exit.*)"

proof stopped-ranks "$left ranks that could run left with exit code 6 and named the one that was" \
    "stopped or killed, the slowest after $((slowest / 1000)).$((slowest / 100 % 10)) s" \
    "(hang_seconds: $hang_seconds, deadline: $((hang_seconds + 5)) s)"
finish
