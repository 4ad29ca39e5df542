#!/usr/bin/env bash
# The batch scripts of scripts/slurm/ in a real Slurm with two nodes. A job that is stopped comes
# back and computes what an uninterrupted one computes; a crash loop ends; a job that no restart can
# fix is not restarted.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$script")/private_slurm.sh"
[[ ${3:-} == private ]] || run_privately
make_data
make_spec
sed -i 's/decay_steps: 20/decay_steps: 1000000/; s/interval: 10/interval: 0/; s/batch_size: 2/batch_size: 4/' run.yaml
limit_memory
start_slurm
ln -s "$(realpath "$(dirname "$script")/../../scripts")" scripts
export GPTRAIN=$gptrain OMP_NUM_THREADS=1

# submit NAME ARGUMENTS...: a job that writes NAME.log, with the rest of sbatch's command line; sets
# `job`.
submit() {
    job=$(sbatch --parsable --output="$1.log" "${@:2}" 2>err) ||
        { fail "sbatch ${*:2}: $(cat err)"; finish; }
}

# job_says JOB KEY: a value that Slurm reports for it.
job_says() { scontrol --oneliner show job "$1" | sed "s/.* $2=\([^ ]*\).*/\1/"; }

# comes_to JOB STATE: waits until it has this state.
comes_to() {
    local i state
    for ((i = 0; i < 400; ++i)); do
        state=$(job_says "$1" JobState)
        [[ $state != "$2" ]] || return
        sleep 0.2
    done
    fail "job $1 is $state, not $2: $(tail -n 5 ./*.log)"
}

# has_ended JOB STATE RESTARTS
has_ended() {
    comes_to "$1" "$2"
    (($(job_says "$1" Restarts) == $3)) || fail "job $1: $(job_says "$1" Restarts) restarts, not $3"
}

# ends_in_time SPEC OUTPUT-DIR JOB: waits until the job was stopped and requeued, and lets it end
# five steps after its checkpoint; sets `last` to that step.
ends_in_time() {
    wait_for "$2.log" "gptrain ended with code 75"
    comes_to "$3" PENDING
    [[ $(ls "$2/checkpoints") =~ ^step-0*([0-9]+)$ ]] || fail "$2: not one checkpoint"
    last=$((BASH_REMATCH[1] + 5))
    sed -i "s/, steps: [0-9]*/, steps: $last/" "$1"
}

# A program that trains, but fails as $FAILURE says.
cat >failing.sh <<END
#!/usr/bin/env bash
[[ \$1 != inspect && \$* != *--dry-run* ]] || exec "$gptrain" "\$@"
echo "start with \$SLURM_CPUS_PER_TASK cores"
start=\${GPTRAIN_START##*.}
train() { "$gptrain" "\$@" --set training.steps=\$((5 * start)); }
eval "\$FAILURE"
END
chmod +x failing.sh

# Long jobs start first and are checked at the end. To one, Slurm itself sends the script's signal,
# up to half a minute before it would have to.
sed 's/, steps: 20/, steps: 1000000000/' run.yaml >endless.yaml
cp endless.yaml timed.yaml
submit timed --time=1 --signal=USR1@50 --ntasks-per-node=2 scripts/slurm/one_node.sbatch timed.yaml \
    --set output_dir=timed --set faults.time_limit=auto --set logging.interval=1000
timed=$job
ends_in_time timed.yaml timed "$timed" &

# One makes progress in its first two starts and then no more; one is killed before it writes
# anything; one is killed twice on a node, stopped on the other one, and then may take any.
one=(--ntasks-per-node=1 --cpus-per-task=2 scripts/slurm/one_node.sbatch)
GPTRAIN=$work/failing.sh FAILURE='((start > 2)) || train "$@"; exit 6' \
    submit lost "${one[@]}" run.yaml --set output_dir=lost
lost=$job
GPTRAIN=$work/failing.sh FAILURE='kill -KILL $$' \
    submit killed "${one[@]}" run.yaml --set output_dir=killed
killed=$job
GPTRAIN=$work/failing.sh FAILURE='case ${SLURM_RESTART_COUNT:-0} in 0) kill -KILL $$ ;; 1) exit 75 ;; esac' \
    submit moved "${one[@]}" run.yaml --set output_dir=moved
moved=$job

# On node n2 a rank hangs in the first $HANGS starts, here in all those
# of jobs that need it: both nodes, or one like it.
hang='train "$@"
    ((SLURM_RESTART_COUNT == 0)) || exit 0
    ((start <= HANGS)) || exit 75
    [[ $SLURMD_NODENAME == n2 ]] || exec sleep 60
    echo "gptrain: error: hang: rank 2 (dp 2 pp 0 cp 0 tp 0) on n2, process 1, is stuck" >&2
    exit 6'
hanging=(--ntasks-per-node=2 --oversubscribe scripts/slurm/many_nodes.sbatch run.yaml)
GPTRAIN=$work/failing.sh HANGS=9 FAILURE=${hang#*$'\n'} \
    submit both --nodes=2 "${hanging[@]}" --set output_dir=both
both=$job
GPTRAIN=$work/failing.sh HANGS=9 FAILURE=${hang#*$'\n'} \
    submit alike --nodes=1 --constraint=second "${hanging[@]}" --set output_dir=alike
alike=$job

# Two nodes with two tasks each, stopped by a signal: the same numbers as without it.
cp endless.yaml stopped.yaml
many=(--nodes=2 --ntasks-per-node=2 --oversubscribe scripts/slurm/many_nodes.sbatch)
submit stopped "${many[@]}" stopped.yaml --set output_dir=stopped
wait_for stopped/metrics.jsonl '"step": 7,'
scancel --signal=USR1 "$job"
ends_in_time stopped.yaml stopped "$job"
has_ended "$job" COMPLETED 1
says stopped.log "stopping (SIGUSR1)" "resumed from" "finished after step $last"
submit straight "${many[@]}" stopped.yaml --set output_dir=straight
has_ended "$job" COMPLETED 0
same_run straight stopped "$last"
(($(ls "$(checkpoint stopped "$last")"/shard-*.h5 | wc -l) == 4)) || fail "not four ranks"

# Faults that a restart does not fix.
for code in 1 2 3 4 5; do
    GPTRAIN=$work/failing.sh FAILURE="exit $code" submit "code-$code" "${one[@]}" run.yaml
    has_ended "$job" FAILED 0
    [[ $(job_says "$job" ExitCode) == "$code:0" ]] || fail "job $job: $(job_says "$job" ExitCode)"
done
# The code of one rank, when srun ends the others.
GPTRAIN=$work/failing.sh FAILURE='((SLURM_PROCID)) && exec sleep 60; sleep 1; exit 5' \
    submit alone --ntasks-per-node=2 scripts/slurm/one_node.sbatch run.yaml
has_ended "$job" FAILED 0
[[ $(job_says "$job" ExitCode) == 5:0 ]] || fail "job $job: $(job_says "$job" ExitCode)"
# The kernel ends the rank that takes more memory than the job has; the job's log says so.
if [[ -n $memory_limits ]]; then
    GPTRAIN=$work/failing.sh FAILURE='train "$@"; ((start > 1)) || head -c 600M /dev/zero | tail >/dev/null' \
        submit greedy --mem=300 "${one[@]}" run.yaml --set output_dir=greedy
    has_ended "$job" COMPLETED 0
    says greedy.log "a task has used up the memory" "start 2 in this allocation"
else
    echo "did not run: the kernel has no memory cgroups of version 1 here"
fi
submit wrong "${one[@]}" run.yaml --set training.step=3
has_ended "$job" FAILED 0
says wrong.log training.step "steps"
says_not wrong.log srun
submit resume "${one[@]}" run.yaml --resume never
has_ended "$job" FAILED 0
says resume.log "--resume"

# Each task of an array comes back by itself.
GPTRAIN=$work/failing.sh FAILURE='((SLURM_RESTART_COUNT)) || exit $((SLURM_ARRAY_TASK_ID == 2 ? 75 : 0))' \
    submit array-%a --array=1-2 "${one[@]}" run.yaml --set output_dir=array
has_ended "${job}_1" COMPLETED 0
has_ended "${job}_2" COMPLETED 1

# A cancelled job saves and does not come back.
submit cancelled "${one[@]}" endless.yaml --set output_dir=cancelled
wait_for cancelled/metrics.jsonl '"step": 7,'
scancel "$job"
has_ended "$job" CANCELLED 0
says cancelled.log "stopping (SIGTERM)" "saved $work/cancelled"

# Tasks that do not know of each other.
srun --ntasks=2 --mpi=none "$gptrain" --config run.yaml --set output_dir=lonely >out 2>err
(($? == 2)) || fail "srun --mpi=none: $(cat err)"
says err "srun --mpi=pmix"
[[ ! -e lonely ]] || fail "tasks that do not know of each other have made their output directory"

# In a container, without a time limit; a stand-in for its program records how it was called.
mkdir bin
cat >bin/apptainer <<END
#!/usr/bin/env bash
echo "apptainer \$*"
while [[ \$1 != image.sif ]]; do shift; done
exec "\${@:2}"
END
chmod +x bin/apptainer
ln -s "$gptrain" bin/gptrain
GPTRAIN_IMAGE=image.sif PATH=$work/bin:$PATH submit contained --ntasks-per-node=2 \
    --time=UNLIMITED scripts/slurm/container.sbatch run.yaml --set output_dir=contained \
    --set faults.time_limit=auto
has_ended "$job" COMPLETED 0
says contained.log "apptainer exec --nv --bind $work,$work/slurm/spool-n" "finished after step 20"

# The third restart without a new checkpoint is the last one.
has_ended "$killed" FAILED 1
says killed.log "exit code 137 after 3 restarts without a new checkpoint (newest: none)"
has_ended "$moved" COMPLETED 2
[[ $(grep -oE "does not take: (n[12]$|none)" moved.log | sed "s/: n[12]/: node/" | paste -sd ,) == \
    "does not take: node,does not take: none" ]] || fail "a node with two kills: $(cat moved.log)"
has_ended "$lost" FAILED 0
says lost.log "exit code 6 after 3 restarts without a new checkpoint (newest: step-000010)"
[[ $(job_says "$lost" ExitCode) == 6:0 ]] || fail "job $lost: $(job_says "$lost" ExitCode)"
(($(grep -c "start with 2 cores" lost.log) == 5)) || fail "not five starts: $(cat lost.log)"

for name in both alike; do
    has_ended "${!name}" FAILED 0
    says $name.log "without n2 Slurm has too few nodes"
    says_not $name.log "does not take"
done

has_ended "$timed" COMPLETED 1
says timed.log "stopping (SIGUSR1)" "resumed from" "finished after step"

# A job that can run on one node goes on without n2 after the second hang there; after a stop it gets n2
# back. Nothing else runs now, so it gets both nodes if it may.
GPTRAIN=$work/failing.sh GPTRAIN_MIN_NODES=1 HANGS=2 FAILURE=$hang \
    submit hung --nodes=1-2 "${hanging[@]}" --set output_dir=hung
has_ended "$job" COMPLETED 1
[[ $(grep -oE "mesh: dp [0-9]+" hung.log | paste -sd ,) == \
    "mesh: dp 4,mesh: dp 4,mesh: dp 2,mesh: dp 4" ]] || fail "a hung node: $(cat hung.log)"
says hung.log "finished after step 15"

finish
