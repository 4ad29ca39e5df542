# shellcheck shell=bash
# What the batch scripts of this folder have in common. They source it with the arguments of sbatch,
#   RUN.yaml [--set KEY.PATH=VALUE ...]
# and may have set the array `gptrain`, the command that starts gptrain.
#
# gptrain runs as one step of the job. Where another start helps, the job is put back into the queue
# and goes on from its newest checkpoint: after exit code 75 (saved on a signal or time limit), 6 (a
# hang or a lost rank), and when a task was killed, which srun reports as a code above 128. Three
# such restarts without a new checkpoint in between are a crash loop, which ends the job. Any other
# code ends it too; the job's exit code is gptrain's.
set -euo pipefail
max_restarts=3
[[ -v gptrain ]] || gptrain=("${GPTRAIN:-gptrain}")

# end CODE WHY
end() {
    echo "error: $2; the job ends" >&2
    exit "$1"
}

newest_checkpoint() {
    ls "$output_dir/checkpoints" 2>/dev/null | grep -E '^step-[0-9]+$' | sort -V | tail -n 1
}

# Puts the job back into the queue, unless it is in a crash loop: $state holds the job, the newest
# checkpoint when it was last put back, and how often in a row that has been the same one.
requeue() {
    local code=$1 state=$output_dir/slurm-restarts now job="" checkpoint="" restarts=0
    now=$(newest_checkpoint) || now=none
    [[ ! -f $state ]] || read -r job checkpoint restarts <"$state" || true
    [[ "$job $checkpoint" == "$SLURM_JOB_ID $now" ]] || restarts=0
    ((restarts < max_restarts)) || end "$code" \
        "exit code $code after $restarts restarts without a new checkpoint (newest: $now)"
    # Without a count there would be no end.
    mkdir -p "$output_dir" && echo "$SLURM_JOB_ID $now $((restarts + 1))" >"$state" ||
        end "$code" "exit code $code, and restarts cannot be counted in $state"
    echo "gptrain ended with code $code, newest checkpoint: $now; back into the queue"
    scontrol requeue "$SLURM_JOB_ID" || end "$code" "Slurm does not put the job back into the queue"
}

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

# --kill-on-bad-exit: ranks that one has left would wait for it. A step does not inherit the job's
# CPUs per task.
code=0
srun --mpi=pmix --kill-on-bad-exit=1 ${SLURM_CPUS_PER_TASK:+--cpus-per-task="$SLURM_CPUS_PER_TASK"} \
    "${gptrain[@]}" --config "$spec" "$@" || code=$?
if ((code == 75 || code == 6 || code > 128)); then requeue "$code"; fi
exit "$code"
