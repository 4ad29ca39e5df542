#!/usr/bin/env bash
# How the scripts of scripts/slurm/ start a run, and when they start it again and put its job back into
# the queue; stand-ins take the place of Slurm and gptrain.
. "$(dirname "$0")/lib.sh"
scripts=$(realpath "$(dirname "$script")/../../scripts/slurm")
train=$scripts/train.sh
mkdir bin run
stand_in() {
    printf '#!/usr/bin/env bash\n%s\n' "$2" >"bin/$1"
    chmod +x "bin/$1"
}
# One that notes its arguments in `calls`.
noting() { stand_in "$1" "echo $1 \"\$@\" >>calls"$'\n'"${2-}"; }
# The nodes in $UNFIT are not fit for another start.
probes='if [[ "$*" == *probe.sh* ]]; then
    [[ " $UNFIT " != *" $(grep -oE "nodelist=[^ ]+" <<<"$*" | cut -d = -f 2) "* ]]
    exit
fi
[[ "$*" != *watch_host.sh* ]] || exit 0
'
command='if [[ " $SLURM_NTASKS $SLURM_NPROCS $SLURM_NTASKS_PER_NODE " == *" 0 "* ]]; then
    echo "srun: error: Invalid numeric value \"0\" for --ntasks." >&2
    exit 1
fi
while [[ $1 == -* ]]; do shift; done; exec "$@"'
srun=$probes$command
noting srun "$srun"
export UNFIT=""
scontrol='case $1 in
    requeue) touch requeued ;;
    show) [[ $2 != hostnames ]] || exec echo n1 ;;
esac
echo " ExcNodeList=(null) "'
noting scontrol "$scontrol"
# At first Slurm is about to end the job, so there is no other start in the same allocation.
ending='[[ $* != *%e ]] || exec echo 0
echo COMPLETING'
noting squeue "$ending"
noting sbatch
noting sleep '[[ $1 == 10 ]] || exec /bin/sleep 0.1'
stand_in gptrain '[[ $1 != inspect ]] || exec echo "output_dir: run"
cat events >>run/metrics.jsonl; exit 6'
export PATH=$work/bin:$PATH SLURM_JOB_ID=7 SLURM_NNODES=1 SLURM_JOB_NODELIST=n1

# start LINE REQUEUED: a start of the job writes this line into metrics.jsonl.
start() {
    echo "$1" >events
    rm -f requeued
    bash "$train" run.yaml >out 2>err && fail "the job has ended well"
    [[ $(ls requeued 2>/dev/null) == "$2" ]] || fail "$1: requeued: '$(ls requeued 2>&1)': $(cat out err)"
}

# Every start comes from newer local copies.
for step in 8 16 24 32 40; do start "{\"event\": \"resume\", \"step\": $step}" requeued; done
says out "newest checkpoint: step-000040"
# No start gets far enough to resume; then two resume from the same checkpoint as the others.
start '{"step": 47, "loss": 1}' requeued
start '{"event": "resume", "step": 40}' requeued
start '{"event": "resume", "step": 40}' ""
says err "exit code 6 after 3 restarts without a new checkpoint (newest: step-000040)"

# A new checkpoint is newer than that.
saved() {
    mkdir -p "$(checkpoint run "$1")"
    echo "$1" >"$(checkpoint run "$1")/manifest.json"
}
saved 50
start "" requeued
says out "newest checkpoint: step-000050"
# While a later checkpoint is damaged, those of earlier steps count as progress.
for step in 41 42 43 44; do
    saved $step
    start "" requeued
done
# Also in a folder elsewhere; but a save that never ends does not count.
mv run/checkpoints elsewhere
ln -s ../elsewhere run/checkpoints
saved 45
start "" requeued
for step in 46 47; do
    mkdir "$(checkpoint run $step).tmp-1"
    echo >"$(checkpoint run $step).tmp-1/manifest.json"
    start "" requeued
done
mkdir "$(checkpoint run 48).tmp-1"
echo >"$(checkpoint run 48).tmp-1/manifest.json"
start "" ""
says err "exit code 6 after 3 restarts without a new checkpoint (newest: step-000050)"
# One that nothing was saved for.
rm -r run
mkdir run
start '{"step": 1, "loss": 1}' requeued
says out "newest checkpoint: none"

# has_exited CODE EXIT-CODE WHAT
has_exited() { (($2 == $1)) || fail "exit code $2 instead of $1: $3: $(cat out err)"; }
# ends_with CODE REQUEUED ARGUMENTS...: a start of the job.
ends_with() {
    local code=$1 requeued=$2
    rm -rf run requeued calls out err
    mkdir run
    bash "$train" "${@:3}" >out 2>err
    has_exited "$code" $? "train.sh ${*:3}"
    [[ $(ls requeued 2>/dev/null) == "$requeued" ]] || fail "requeued: '$(ls requeued 2>&1)': $(cat out err)"
}
# The disk of the copy of the errors is full, and that of the log.
stand_in tee 'cat >&2; exit 1'
stand_in gptrain '[[ $1 != inspect ]] || exec echo "output_dir: run"
echo "gptrain: error: lost" >&2; exit 6'
ends_with 6 requeued run.yaml
says err "gptrain: error: lost"
rm -rf run requeued
mkdir run
bash "$train" run.yaml >/dev/full 2>/dev/full
has_exited 6 $? "train.sh with a full log"
[[ -e requeued ]] || fail "a full log keeps the job out of the queue"
rm bin/tee
# No copy at all.
stand_in mktemp 'exit 1'
ends_with 6 requeued run.yaml
rm bin/mktemp

# In an array every call is about this task.
SLURM_ARRAY_JOB_ID=7 SLURM_ARRAY_TASK_ID=3 ends_with 6 requeued run.yaml
says calls "scontrol requeue 7_3" "squeue --noheader --jobs 7_3"
if grep -E '^(scontrol|squeue).* 7( |$)' calls; then fail "a call about the whole array"; fi

# Slurm is away for a while; it does not requeue at all; it does not come back.
hostnames='[[ "$1 $2" != "show hostnames" ]] || exec echo n1
'
noting scontrol "$hostnames"'[[ $1 == requeue ]] || exit 0
(($(grep -c requeue calls) > 3)) || { echo "Unable to contact slurm controller" >&2; exit 1; }
touch requeued'
ends_with 6 requeued run.yaml
says out "Unable to contact slurm controller; trying again"
(($(grep -c "sleep 10" calls) == 3)) || fail "$(cat calls)"
for why in "Requested operation is presently disabled" "Invalid job id specified"; do
    noting scontrol "$hostnames[[ \$1 != requeue ]] || { echo '$why'; exit 1; }"
    ends_with 6 "" run.yaml
    says out "$why"
    says_not calls "sleep 10"
done
noting scontrol "$hostnames"'[[ $1 != requeue ]] || exit 1'
ends_with 6 "" run.yaml
(($(grep -c "sleep 10" calls) == 60)) || fail "$(grep -c sleep calls) tries"
noting scontrol "$scontrol"

# A node that errors name twice, in lines with and without the task's number.
hang="gptrain: error: hang: rank 0 (dp 0 pp 0 cp 0 tp 0) on n1, process 1, is stuck"
rm -f run/slurm-*
for label in "" "0: "; do
    stand_in gptrain "[[ \$1 != inspect ]] || exec echo 'output_dir: run'
echo '$label$hang' >&2; exit 6"
    bash "$train" run.yaml >out 2>err
done
says out "nodes that the job does not take: n1"
# Damaged counts start again.
for damage in "7 none word" "7 none 08" "7 none" "7 none 3 4" ""; do
    echo "$damage" >run/slurm-restarts
    rm -f requeued
    bash "$train" run.yaml >out 2>err
    [[ -e requeued && $(<run/slurm-restarts) == "7 none 1" ]] || fail "'$damage': $(cat out err)"
done
GPTRAIN_MIN_NODES=few ends_with 2 "" run.yaml
says err "GPTRAIN_MIN_NODES is 'few'"

# The end of the job, for gptrain; if Slurm does not report it, the variable stays as it was.
stand_in gptrain '[[ $1 != inspect ]] || exec echo "output_dir: run"
echo "end ${SLURM_JOB_END_TIME-unknown}"'
ends_with 0 "" run.yaml
says out "end 0"
noting squeue 'echo NONE'
ends_with 0 "" run.yaml
says out "end NONE"
for squeue in 'exit 1' 'echo N/A' 'echo; echo error >&2'; do
    noting squeue "$squeue"
    ends_with 0 "" run.yaml
    says out "end unknown"
    SLURM_JOB_END_TIME=5 ends_with 0 "" run.yaml
    says out "end 5"
done
noting squeue "$ending"

# The arguments of inspect, gptrain and srun.
stand_in gptrain 'printf "<%s>" "$@" >>given; echo >>given
[[ $1 != inspect ]] || echo "output_dir: run"'
rm -f given
ends_with 0 "" run.yaml --set a=b --timeline step.svg --set=c=d
[[ $(<given) == "<inspect><run.yaml><--set><a=b><--set=c=d>
<--config><run.yaml><--set><a=b><--timeline><step.svg><--set=c=d>" ]] || fail "given: $(cat given)"
says calls "srun --mpi=pmix --kill-on-bad-exit=1 --export=ALL --overlap --nodes=1 --nodelist=n1 \
--distribution=block:block gptrain"
SLURM_DISTRIBUTION=cyclic SLURM_CPUS_PER_TASK=8 ends_with 0 "" run.yaml
says calls "--distribution=cyclic --cpus-per-task=8 --cpu-bind=cores --mem-bind=local gptrain"
ends_with 2 "" run.yaml --resume=never
GPTRAIN_MPI=cray_shasta ends_with 0 "" run.yaml
says calls "srun --mpi=cray_shasta"
# A variable of the environment is no array.
gptrain=wrong srun_options=--wrong ends_with 0 "" run.yaml
says_not calls wrong
rm -f given calls
bash -c 'srun_options=(--container-image=x); . "$@"' bash "$train" run.yaml >out 2>err || fail "$(cat err)"
(($(grep -c -- "--container-image=x gptrain" calls) == 2)) || fail "srun_options: $(cat calls)"

# Names of output directories, as inspect prints them.
for name in 'a b' 'a"b' 'a\b' '\"' 'a: b'; do
    rm -rf "$name"
    quoted=${name//\\/\\\\}
    quoted=${quoted//\"/\\\"}
    stand_in gptrain "[[ \$1 != inspect ]] || exec echo 'output_dir: \"$quoted\"'
exit 6"
    ends_with 6 requeued run.yaml
    [[ -s $name/slurm-restarts ]] || fail "no $name/slurm-restarts: $(ls)"
done
stand_in gptrain ''
ends_with 2 "" run.yaml
says err "output_dir"

# One rank's own code, where srun reports that it ended the others.
for code in 1 5 6; do
    noting srun "echo 'srun: error: n1: task 1: Exited with exit code $code' >&2; exit 143"
    stand_in gptrain 'echo "output_dir: run"'
    if ((code == 5)); then ends_with 5 "" run.yaml; else ends_with 143 requeued run.yaml; fi
done
# Ranks that lose one that cannot connect end with 6, the larger code.
noting srun "echo 'srun: error: n1: task 1: Exited with exit code 2' >&2; exit 6"
ends_with 2 "" run.yaml

# The kernel has killed a task; Slurm's lines come before those of srun.
noting srun "echo 'slurmstepd: error: Detected 1 oom_kill event in StepId=7.0. Some tasks have been OOM Killed.' >&2
echo 'srun: error: n1: task 1: Out Of Memory' >&2; exit 1"
ends_with 137 requeued run.yaml
says out "has used up the memory" "(oom_kill): ask for more with --mem"

# In the same allocation. The start number $GOOD is the first that ends well.
noting srun "$srun"
noting squeue 'echo 0'
stand_in gptrain '[[ $1 != inspect ]] || exec echo "output_dir: run"
[[ $* != *--dry-run* ]] || exit $((${*: -1} == ${NO_MESH:-0}))
echo "start $GPTRAIN_START" >>starts
echo "$GPTRAIN_FAILED" >>failures
((${GPTRAIN_START##*.} >= ${GOOD:-2})) || exit "${CODE:-6}"'
# starts NUMBER CODE REQUEUED: train.sh starts gptrain so often.
starts() {
    rm -f starts failures
    ends_with "$2" "$3" run.yaml
    (($(wc -l <starts) == $1)) || fail "$(<starts)"
}
GOOD=9 starts 4 6 ""
says err "exit code 6 after 3 restarts without a new checkpoint (newest: none)"
[[ $(paste -sd , starts) == "start 7.0.1,start 7.0.2,start 7.0.3,start 7.0.4" ]] || fail "$(<starts)"
# Each but the first knows when the one before it failed.
now=$(date +%s)
[[ $(sed -n 1p failures) == "" ]] || fail "the first start follows a failure: $(<failures)"
for failed in $(sed 1d failures); do
    ((failed > now - 60 && failed <= now)) || fail "a failure at $failed, now $now"
done
(($(grep -c . failures) == 3)) || fail "times of failures: $(<failures)"
CODE=137 starts 2 0 ""
for code in 1 2 3 4 5; do CODE=$code starts 1 $code ""; done
CODE=75 starts 1 75 requeued
# Slurm says nothing of use about the job, or that it is about to end.
for squeue in 'exit 1' 'echo rubbish; echo "n[" >&2' 'echo "(null)"'; do
    noting squeue "$squeue"
    starts 2 0 ""
done
for state in CANCELLED COMPLETING PENDING; do
    noting squeue "echo $state"
    starts 1 6 requeued
done
noting squeue 'echo 0'

# Three nodes with two tasks each: the spare takes the place of one that is not fit, or that Slurm has
# taken from the job, or that two errors name.
noting scontrol '[[ $1 != requeue ]] || touch requeued
[[ "$1 $2" != "show hostnames" ]] || { tr , "\n" <<<"$3"; exit; }
echo " ExcNodeList=(null) "'
export SLURM_NNODES=3 SLURM_NTASKS=6 SLURM_JOB_NODELIST=n1,n2,n3
# with_nodes NODES: a job that ends well, in starts on these: "NUMBER LIST TASKS/NUMBER ...".
with_nodes() {
    ends_with 0 "" run.yaml
    local nodes
    nodes=$(grep -oE -- '--nodes=[0-9]+ --nodelist=[^ ]+ --distribution=[^ ]+( --ntasks=[0-9]+)?' calls |
        sed -E 's/ --distribution=[^ ]+//; s/--(nodes|nodelist|ntasks)=//g' | paste -sd /)
    [[ $nodes == "$1" ]] || fail "$nodes, not $1"
}
GPTRAIN_SPARES=1 UNFIT=n2 with_nodes "2 n1,n2 4/2 n1,n3 4"
noting squeue 'echo n1,n3'
GPTRAIN_SPARES=1 with_nodes "2 n1,n2 4/2 n1,n3 4"
noting squeue 'echo n1,n2,n3'
noting srun "${probes}echo 'srun: error: n2: task 3: Killed' >&2; $command"
GPTRAIN_SPARES=1 GOOD=3 with_nodes "2 n1,n2 4/2 n1,n2 4/2 n1,n3 4"
# At once, if that error is a proof.
wrong="gptrain: error: rank 2 (dp 2 pp 0 cp 0 tp 0) on n2: two runs of a microbatch of step 9 gave different"
noting srun "${probes}echo '$wrong' >&2; $command"
GPTRAIN_SPARES=1 with_nodes "2 n1,n2 4/2 n1,n3 4"
# A batch script that is stopped shows no life to the node that watches it.
rm -rf run
noting srun 'exec /bin/sleep 3'
GPTRAIN_SPARES=1 bash "$train" run.yaml >out 2>err &
stopped=$!
until [[ -e run/slurm-alive ]]; do /bin/sleep 0.1; done
kill -STOP $stopped
/bin/sleep 0.5
touch since
/bin/sleep 0.5
[[ run/slurm-alive -ot since ]] || fail "a stopped script looks alive"
kill -CONT $stopped
/bin/sleep 0.5
[[ run/slurm-alive -nt since ]] || fail "a script that goes on looks stopped"
wait $stopped || fail "$(cat out err)"
# Slurm has forgotten the tasks of a job that it had taken nodes from.
noting srun "$srun"
for spares in 0 1; do
    rm -rf run calls
    mkdir run
    echo "7 2" >run/slurm-tasks
    SLURM_NTASKS=$spares GPTRAIN_SPARES=$spares bash "$train" run.yaml >out 2>err || fail "$(cat out err)"
    says calls "--ntasks=$((6 - 2 * spares)) --ntasks-per-node=2"
done
rm -rf run
SLURM_NTASKS=0 ends_with 2 "" run.yaml
says err "Slurm has forgotten how many tasks a node of this job has"
noting srun "${probes}echo 'srun: error: Task launch for StepId=7.1 failed on node n3: Error' >&2; $command"
CODE=1 starts 2 0 ""
# The network is away while ranks of a later start connect; in the first one MPI is set up wrongly.
unreachable="echo '[n1:17] *** An error occurred in MPI_Init_thread' >&2; exit 1"
noting srun "${probes}[[ \$GPTRAIN_START != *.2 ]] || { $unreachable; }
$command"
GOOD=3 starts 2 0 ""
noting srun "${probes}$unreachable"
ends_with 1 "" run.yaml
SLURM_RESTART_COUNT=1 ends_with 6 "" run.yaml
# This srun waits for ranks that wait for one that was not launched.
noting srun "${probes}[[ \$GPTRAIN_START != *.1 ]] || {
    echo 'srun: error: task 2 launch failed: Unspecified error' >&2
    echo first >>starts
    exec /bin/sleep 100
}
$command"
starts 2 0 ""
says out "srun has not ended 5 s after this line, and is killed: srun: error: task 2 launch failed"
# This one waits for ranks that wait for a message of Slurm's that is lost.
noting srun "${probes}[[ \$GPTRAIN_START != *.1 ]] || {
    echo 'slurmstepd-n1: error:  mpi/pmix_v4: pmixp_p2p_send: n1 [0]: send failed, rc=2, exceeded the retry limit' >&2
    echo first >>starts
    exec /bin/sleep 100
}
$command"
starts 2 0 ""
noting srun "$srun"
# An srun that somebody stops goes on.
noting srun "${probes}kill -STOP \$\$; $command"
GOOD=1 starts 1 0 ""
noting srun "$srun"
# Where errors have named every node twice, the job starts on them all the same.
rm -rf run calls
mkdir run
printf '7 %s\n' n1 n2 n3 n1 n2 n3 >run/slurm-faults
GOOD=1 GPTRAIN_SPARES=1 bash "$train" run.yaml >out 2>err || fail "$(cat out err)"
says calls "--nodes=2 --nodelist=n1,n2"
# Fewer nodes are enough, if gptrain can make a mesh of them; all of them, if none is said to be.
GPTRAIN_MIN_NODES=1 UNFIT=n2 with_nodes "3 n1,n2,n3/2 n1,n3 4"
NO_MESH=4 GPTRAIN_MIN_NODES=1 UNFIT=n2 with_nodes "3 n1,n2,n3/1 n1 2"
UNFIT=n2 starts 1 6 requeued
GPTRAIN_SPARES=1 UNFIT="n2 n3" starts 1 6 requeued
for name in GPTRAIN_SPARES GPTRAIN_MIN_NODES GPTRAIN_HOST_SECONDS GPTRAIN_LOOK_SECONDS; do
    export $name=08
    ends_with 2 "" run.yaml
    says err "$name is '08'"
    unset $name
done
GPTRAIN_SPARES=3 ends_with 2 "" run.yaml
says err "GPTRAIN_SPARES is 3, and the job has 3 nodes"
for number in 0 4; do
    GPTRAIN_MIN_NODES=$number ends_with 2 "" run.yaml
    says err "GPTRAIN_MIN_NODES is $number, and the job has 3 nodes"
done

# Batch scripts that do not find what they need.
for name in one_node many_nodes container; do
    GPTRAIN_IMAGE=image.sif GPTRAIN_SCRIPTS=$work bash "$scripts/$name.sbatch" run.yaml >out 2>err
    has_exited 2 $? "$name.sbatch without train.sh"
    says err "there is no $work/train.sh" GPTRAIN_SCRIPTS
done
GPTRAIN_SCRIPTS=$scripts bash "$scripts/container.sbatch" run.yaml >out 2>err
has_exited 2 $? "container.sbatch without an image"
says err GPTRAIN_IMAGE
finish
