# shellcheck shell=bash
# What the batch scripts of this folder have in common. They source it with the arguments of sbatch,
#   RUN.yaml [--set KEY.PATH=VALUE ...]
# and may have set the array `gptrain`, the command that starts gptrain.
#
# gptrain runs as one step of the job. Where another start helps, the job is put back into the queue
# and goes on from its newest checkpoint: after exit code 75 (saved on a signal or time limit), 6 (a
# hang, a lost rank or failed hardware), and when a task was killed, which srun reports as a code
# above 128. Three such restarts without progress in between are a crash loop, which ends the job. A
# new checkpoint is progress, and so is a start from newer local copies. Any other code ends the job
# too; its exit code is gptrain's.
#
# A node that gptrain's errors name in two starts is left out from then on, if Slurm has enough
# others, until the job comes back for another reason (75). $GPTRAIN_MIN_NODES are enough for a job
# with --nodes=MIN-MAX.
set -euo pipefail
max_restarts=3
min_nodes=${GPTRAIN_MIN_NODES:-$SLURM_NNODES}
[[ -v gptrain ]] || gptrain=("${GPTRAIN:-gptrain}")

# end CODE WHY
end() {
    echo "error: $2; the job ends" >&2
    exit "$1"
}

# shellcheck source=requeue.sh
. "$(dirname "${BASH_SOURCE[0]}")/requeue.sh"

[[ $# -gt 0 && $1 != -* ]] || end 2 "give the run spec first: sbatch SCRIPT RUN.yaml [--set ...]"
spec=$1
shift
# After a restart it would start from the same place again.
[[ " $*" != *" --resume"* ]] || end 2 "--resume is not for jobs, they resume by themselves"

# A mistake in the spec ends the job here, on one node.
effective=$("${gptrain[@]}" inspect "$spec" "$@")
output_dir=$(sed -n 's/^output_dir: "\{0,1\}\([^"]*\)"\{0,1\}$/\1/p' <<<"$effective")

# For faults.time_limit=auto; not every Slurm sets it.
export SLURM_JOB_END_TIME
SLURM_JOB_END_TIME=$(SLURM_TIME_FORMAT=%s squeue --noheader --jobs "$SLURM_JOB_ID" --format %e) ||
    unset SLURM_JOB_END_TIME

faults=$output_dir/slurm-faults
errors=$(mktemp)
trap 'rm -f "$errors"' EXIT
# --kill-on-bad-exit: ranks that one has left would wait for it. A step does not inherit the job's
# CPUs per task. Signals are for gptrain: what copies its errors has to outlive it.
code=0
{
    srun --mpi=pmix --kill-on-bad-exit=1 \
        ${SLURM_CPUS_PER_TASK:+--cpus-per-task="$SLURM_CPUS_PER_TASK"} \
        "${gptrain[@]}" --config "$spec" "$@" 2>&1 >&3 | (trap '' TERM && exec tee "$errors" >&2)
} 3>&1 || code=$?
if ((code == 75 || code == 6 || code > 128)); then requeue "$code"; fi
exit "$code"
