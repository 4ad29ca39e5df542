#!/usr/bin/env bash
# How the scripts of scripts/slurm/ start a run and when they put its job back into the queue;
# stand-ins take the place of Slurm and gptrain.
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
noting srun 'while [[ $1 == -* ]]; do shift; done; exec "$@"'
scontrol='case $1 in
    requeue) touch requeued ;;
    show) [[ $2 != hostnames ]] || exec echo n1 ;;
esac
echo " ExcNodeList=(null) "'
noting scontrol "$scontrol"
noting squeue 'echo 0'
noting sbatch
noting sleep
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
noting scontrol '[[ $1 == requeue ]] || exit 0
(($(grep -c requeue calls) > 3)) || { echo "Unable to contact slurm controller" >&2; exit 1; }
touch requeued'
ends_with 6 requeued run.yaml
says out "Unable to contact slurm controller; trying again"
(($(grep -c "sleep 10" calls) == 3)) || fail "$(cat calls)"
for why in "Requested operation is presently disabled" "Invalid job id specified"; do
    noting scontrol "[[ \$1 != requeue ]] || { echo '$why'; exit 1; }"
    ends_with 6 "" run.yaml
    says out "$why"
    says_not calls sleep
done
noting scontrol '[[ $1 != requeue ]] || exit 1'
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

# The arguments of inspect, gptrain and srun.
stand_in gptrain 'printf "<%s>" "$@" >>given; echo >>given
[[ $1 != inspect ]] || echo "output_dir: run"'
rm -f given
ends_with 0 "" run.yaml --set a=b --timeline step.svg --set=c=d
[[ $(<given) == "<inspect><run.yaml><--set><a=b><--set=c=d>
<--config><run.yaml><--set><a=b><--timeline><step.svg><--set=c=d>" ]] || fail "given: $(cat given)"
says calls "srun --mpi=pmix --kill-on-bad-exit=1 --export=ALL --distribution=block:block gptrain"
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
