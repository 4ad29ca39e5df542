# shellcheck shell=bash
# The common part of the batch scripts of this folder. They source it with the arguments of sbatch,
#   RUN.yaml [--set KEY.PATH=VALUE ...]
# and may have set two arrays: `gptrain`, the command that starts gptrain, and `srun_options`, further
# options of srun. $GPTRAIN_MPI is the kind of srun --mpi, pmix by default.
#
# gptrain runs as one step of the job. Where another start helps, this script makes one: after exit
# code 6 (a hang, a lost rank or failed hardware), and when a task was killed, which srun reports as a
# code above 128, in the same allocation if that has enough nodes that are fit; else, and after 75
# (saved on a signal or time limit), through the queue. Each start continues from the newest state.
# Three restarts without progress in between are a crash loop, which ends the job. A new checkpoint is
# progress, and so is a start from newer local copies. Any other code ends the job too; its exit code
# is gptrain's. docs/slurm.md has the states as a table.
#
# $GPTRAIN_SPARES nodes of the job wait for others to fail. A node that errors name in two starts is
# left out from then on, if there are enough others, until the job comes back for another reason (75).
# $GPTRAIN_MIN_NODES are enough, for a job with --nodes=MIN-MAX too.
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

# number_of VARIABLE DEFAULT: its value in the environment.
number_of() {
    local value=${!1:-$2}
    [[ $value =~ ^(0|[1-9][0-9]*)$ ]] || end 2 "$1 is '$value', not a number"
    echo "$value"
}
# The nodes that Slurm needs for the job, that are enough for a start, and that it takes if it can.
min_nodes=$(number_of GPTRAIN_MIN_NODES "$SLURM_NNODES")
spares=$(number_of GPTRAIN_SPARES 0)
enough=$(number_of GPTRAIN_MIN_NODES $((SLURM_NNODES - spares)))
wanted=$((SLURM_NNODES - spares > enough ? SLURM_NNODES - spares : enough))
((min_nodes > 0 && min_nodes <= SLURM_NNODES)) || end 2 \
    "GPTRAIN_MIN_NODES is $min_nodes, and the job has $SLURM_NNODES nodes"
((spares < SLURM_NNODES)) || end 2 "GPTRAIN_SPARES is $spares, and the job has $SLURM_NNODES nodes"
host_seconds=$(number_of GPTRAIN_HOST_SECONDS 60)
look_seconds=$(number_of GPTRAIN_LOOK_SECONDS 60)
tasks_per_node=${SLURM_NTASKS_PER_NODE:-$((${SLURM_NTASKS:-$SLURM_NNODES} / SLURM_NNODES))}
# No srun starts with a 0 here, whatever its options say.
for name in SLURM_NTASKS SLURM_NPROCS SLURM_NTASKS_PER_NODE; do [[ ${!name:-} != 0 ]] || unset $name; done
# Slurm's name of the job. In an array, SLURM_JOB_ID of the last task means the whole array.
self=$SLURM_JOB_ID
[[ -z ${SLURM_ARRAY_JOB_ID:-} ]] || self=${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID

scripts=$(dirname "${BASH_SOURCE[0]}")
# shellcheck source=step.sh
. "$scripts/step.sh"
# shellcheck source=nodes.sh
. "$scripts/nodes.sh"
# shellcheck source=requeue.sh
. "$scripts/requeue.sh"

[[ $# -gt 0 && $1 != -* ]] || end 2 "give the run spec first: sbatch SCRIPT RUN.yaml [--set ...]"
spec=$1
shift
arguments=("$@")
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
    alone=(srun --overlap --nodes=1 --ntasks=1 --ntasks-per-node=1 --mpi=none --export=ALL
        "${srun_options[@]}")
effective=$("${alone[@]}" "${gptrain[@]}" inspect "$spec" "${settings[@]}")
output_dir=$(printf '%s\n' "$effective" | sed -n 's/^output_dir: //p')
[[ $output_dir != '"'* ]] || output_dir=$(sed 's/^"//; s/"$//; s/\\\(.\)/\1/g' <<<"$output_dir")
[[ -n $output_dir ]] || end 2 "$spec: output_dir is empty"
device=$(printf '%s\n' "$effective" | sed -n 's/^device: //p')

# For faults.time_limit=auto; not every Slurm sets it.
job_end=$(SLURM_TIME_FORMAT=%s squeue --noheader --jobs "$self" --format %e) || true
[[ ! $job_end =~ ^([0-9]+|NONE)$ ]] || export SLURM_JOB_END_TIME=$job_end

# Slurm forgets how many tasks a node has, or takes it for 0, when a job that has lost nodes is requeued.
{ read -r job number <"$output_dir/slurm-tasks"; } 2>/dev/null || job=""
forgotten=""
if [[ $job == "$self" && ${number:-} =~ ^[1-9][0-9]*$ ]]; then
    ((tasks_per_node == number)) || forgotten=yes
    tasks_per_node=$number
else
    ((tasks_per_node > 0)) ||
        end 2 "Slurm has forgotten how many tasks a node of this job has; submit the job again"
    { mkdir -p "$output_dir" && echo "$self $tasks_per_node" >"$output_dir/slurm-tasks"; } 2>/dev/null || true
fi

faults=$output_dir/slurm-faults
faulty_before=$(faulty_nodes)
alive=$output_dir/slurm-alive
errors=$(mktemp) || errors=/dev/null
watchers=()
clean_up() {
    [[ ! -f $errors ]] || rm -f "$errors"
    ((${#watchers[@]} == 0)) || kill -KILL "${watchers[@]}" 2>/dev/null || true
}
trap clean_up EXIT

nodes=$(nodes_in "$SLURM_JOB_NODELIST")
# The faulty ones last; all may be faulty, or none.
mapfile -t healthy < <({ not_among "$faulty_before" <<<"$nodes"; among "$faulty_before" <<<"$nodes"; } || true)
active=("${healthy[@]:0:wanted}")
[[ -n $nodes ]] || end 1 "scontrol does not list the nodes $SLURM_JOB_NODELIST"
start=0 next_look=0
while true; do
    watch_host
    run_step
    ! grep -qE 'oom.kill|Out Of Memory' "$errors" ||
        say "a task has used up the memory of its node or of the job and was killed (oom_kill): ask for more with" \
            "--mem, or see what a rank needs in gptrain --config $spec --dry-run"
    ((code == 75 || code == 6 || code > 128)) || exit "$code"
    count_restart
    ((code == 75)) || count_faults
    # GPUs may take a while to give back their memory.
    [[ $code != 75 || -n $growing ]] && job_runs && { choose_nodes || choose_nodes; } || break
    say "gptrain ended with code $code, newest checkpoint: $newest; start $((start + 1)) in this" \
        "allocation, on $(list_of "${active[@]}"), $((SECONDS - failed_at)) s after the failure"
done
requeue
exit "$code"
