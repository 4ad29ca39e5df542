#!/usr/bin/env bash
# When the scripts of scripts/slurm/ put a job back into the queue; stand-ins take the place of Slurm
# and gptrain.
. "$(dirname "$0")/lib.sh"
train=$(realpath "$(dirname "$script")/../../scripts/slurm/train.sh")
mkdir bin run
stand_in() {
    printf '#!/usr/bin/env bash\n%s\n' "$2" >"bin/$1"
    chmod +x "bin/$1"
}
stand_in srun 'while [[ $1 == -* ]]; do shift; done; exec "$@"'
stand_in scontrol '[[ $1 != requeue ]] || touch requeued; echo " ExcNodeList=(null) "'
stand_in squeue 'echo 0'
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
# No start gets far enough to resume; then two resume where the others did.
start '{"step": 47, "loss": 1}' requeued
start '{"event": "resume", "step": 40}' requeued
start '{"event": "resume", "step": 40}' ""
says err "exit code 6 after 3 restarts without a new checkpoint (newest: step-000040)"

# A new checkpoint is newer than that.
mkdir -p "$(checkpoint run 50)"
start "" requeued
says out "newest checkpoint: step-000050"
# One that nothing was saved for.
rm -r run
mkdir run
start '{"step": 1, "loss": 1}' requeued
says out "newest checkpoint: none"
finish
