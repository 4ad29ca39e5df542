# shellcheck shell=bash
# The common part of the batch scripts of this folder. They source it with the arguments of sbatch,
#   RUN.yaml [--set KEY.PATH=VALUE ...]
# and may have set two arrays: `gptrain`, the command that starts gptrain, and `srun_options`, further
# options of srun. $GPTRAIN_MPI is the kind of srun --mpi, pmix by default.
#
# gptrain runs as one step of the job. Where another start helps, the job is put back into the queue
# and continues from its newest checkpoint: after exit code 75 (saved on a signal or time limit), 6
# (a hang, a lost rank or failed hardware), and when a task was killed, which srun reports as a code
# above 128. Three such restarts without progress in between are a crash loop, which ends the job. A
# new checkpoint is progress, and so is a start from newer local copies. Any other code ends the job
# too; its exit code is gptrain's.
#
# A node that gptrain's errors name in two starts is left out from then on, if Slurm has enough
# others, until the job comes back for another reason (75). $GPTRAIN_MIN_NODES are enough for a job
# with --nodes=MIN-MAX.
set -euo pipefail
max_restarts=3

# say LINE...: a log on a full disk prevents neither the job's end nor its restart.
say() { echo "$@" || true; }

# end CODE WHY
end() {
    say "error: $2; the job ends" >&2
    exit "$1"
}

# is_array NAME: an exported variable of that name is none.
is_array() { [[ $(declare -p "$1" 2>/dev/null) == "declare -a"* ]]; }
is_array gptrain || { unset gptrain && gptrain=("${GPTRAIN:-gptrain}"); }
is_array srun_options || { unset srun_options && srun_options=(); }

min_nodes=${GPTRAIN_MIN_NODES:-$SLURM_NNODES}
[[ $min_nodes =~ ^[1-9][0-9]*$ ]] || end 2 "GPTRAIN_MIN_NODES is '$min_nodes', not a number of nodes"
# Slurm's name of the job. In an array, SLURM_JOB_ID of the last task means the whole array.
self=$SLURM_JOB_ID
[[ -z ${SLURM_ARRAY_JOB_ID:-} ]] || self=${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID

# shellcheck source=requeue.sh
. "$(dirname "${BASH_SOURCE[0]}")/requeue.sh"

[[ $# -gt 0 && $1 != -* ]] || end 2 "give the run spec first: sbatch SCRIPT RUN.yaml [--set ...]"
spec=$1
shift
settings=()
for ((i = 1; i <= $#; ++i)); do
    case ${!i} in
        --set) settings+=("${@:i:2}") && ((++i)) ;;
        --set=*) settings+=("${!i}") ;;
        # After a restart it would start from the same place again.
        --resume | --resume=*) end 2 "--resume is not for jobs, they resume by themselves" ;;
    esac
done

# A mistake in the spec ends the job here, on one node. Options of srun may name a container.
alone=()
((${#srun_options[@]} == 0)) ||
    alone=(srun --nodes=1 --ntasks=1 --ntasks-per-node=1 --mpi=none --export=ALL "${srun_options[@]}")
effective=$("${alone[@]}" "${gptrain[@]}" inspect "$spec" "${settings[@]}")
output_dir=$(printf '%s\n' "$effective" | sed -n 's/^output_dir: //p')
[[ $output_dir != '"'* ]] || output_dir=$(sed 's/^"//; s/"$//; s/\\\(.\)/\1/g' <<<"$output_dir")
[[ -n $output_dir ]] || end 2 "$spec: output_dir is empty"

# For faults.time_limit=auto; not every Slurm sets it.
job_end=$(SLURM_TIME_FORMAT=%s squeue --noheader --jobs "$self" --format %e) || true
[[ ! $job_end =~ ^([0-9]+|NONE)$ ]] || export SLURM_JOB_END_TIME=$job_end

faults=$output_dir/slurm-faults
errors=$(mktemp) || errors=/dev/null
trap '[[ ! -f $errors ]] || rm -f "$errors"' EXIT
# --kill-on-bad-exit: otherwise ranks would wait for one that has left. A step does not inherit the
# job's CPUs per task. Signals are for gptrain: the process that copies its errors has to outlive
# it. The exit code is srun's even if the disk is too full for the copy.
code=0
# Ranks are placed by block: those of tp are neighbours and belong on one node. Ranks with several
# cores are bound to them by block as well, because the first GPUs usually hang on the first socket.
binding=(--distribution="${SLURM_DISTRIBUTION:-block:block}")
[[ -z ${SLURM_CPUS_PER_TASK:-} ]] ||
    binding+=(--cpus-per-task="$SLURM_CPUS_PER_TASK" --cpu-bind=cores --mem-bind=local)
{
    srun --mpi="${GPTRAIN_MPI:-pmix}" --kill-on-bad-exit=1 --export=ALL "${binding[@]}" \
        "${srun_options[@]}" \
        "${gptrain[@]}" --config "$spec" "$@" 2>&1 >&3 | (trap '' TERM && exec tee "$errors" >&2) ||
        code=${PIPESTATUS[0]}
} 3>&1
# The signal that ended the other ranks hides the code of the rank that failed. So does the 6 of ranks
# that have lost it.
first=$(sed -nE '/^srun: error: .*: Exited with exit code [2-5]$/{s/.* //p; q}' "$errors") || true
((code != 6 && code <= 128)) || code=${first:-$code}
if ((code == 75 || code == 6 || code > 128)); then requeue "$code"; fi
exit "$code"
