# Shared by the scripts that start several ranks, after lib.sh. Their third argument: MPIRUN.
mpirun=${3:-mpirun}
command -v "$mpirun" >/dev/null || not_run "there is no $mpirun"
. "$(dirname "$script")/../openmpi.sh"

# ran CODE EXIT-CODE WHAT: checks a launch; drops mpirun's own lines from its output.
ran() {
    grep -E '^(gptrain|warning): ' err >own || true
    mv own err
    check_exit "$@"
}

# start_ranks RANKS OUTPUT-DIR [KEY=VALUE...]: a run of run.yaml in the background, as $launcher.
start_ranks() {
    local ranks=$1
    settings output_dir="$2" "${@:3}"
    : >out  # the ranks may start later than something reads what others left
    timeout --signal=KILL 120 "$mpirun" -n "$ranks" "$gptrain" --config run.yaml "${set[@]}" \
        >out 2>err &
    launcher=$!
}

# end_ranks CODE WHAT: waits for the ranks; leaves their warnings in `warnings`.
end_ranks() {
    wait $launcher
    local code=$?
    grep '^warning: ' err >warnings
    ran "$1" $code "$2"
}

# train_ranks CODE RANKS OUTPUT-DIR [KEY=VALUE...]
train_ranks() {
    start_ranks "${@:2}"
    end_ranks "$1" "$2 ranks, ${*:3}"
}

# needs_shared_gpu: skips the script if GPTRAIN_SHARE_GPU=nccl and the NCCL of this machine cannot
# connect ranks that share a GPU.
needs_shared_gpu() {
    settings output_dir=probe-ranks training.steps=1 checkpoint.interval=0
    timeout --signal=KILL 120 "$mpirun" -n 2 "$gptrain" --config run.yaml "${set[@]}" >out 2>err
    (($? != 2)) || ! grep -q 'cannot connect ranks that share a GPU' err ||
        not_run "$(sed -n 's/^gptrain: error: //p' err)"
}

# Meshes by name. A script may add settings to them.
declare -A named_meshes=(
    [one]="parallel.data=1"
    [dp]="parallel.data=2"
    [tp]="parallel.tensor=2 parallel.sequence_parallel=true"
    [pp]="parallel.pipeline=2"
    [cp]="parallel.context=2"
    [dp_tp]="parallel.data=2 parallel.tensor=2"
)
ranks_of() { case $1 in one) echo 1 ;; uneven) echo 3 ;; dp_tp) echo 4 ;; *) echo 2 ;; esac; }

# run_on MESH OUTPUT-DIR [KEY=VALUE...]: with the script's settings `few`.
run_on() { train_ranks 0 "$(ranks_of "$1")" "$2" $few ${named_meshes[$1]} "${@:3}"; }

# same_shards A B STEP: two output directories hold the same checkpoint, bit for bit.
same_shards() {
    local shard
    for shard in "$(checkpoint "$1" "$3")"/shard-*.h5; do
        same "$shard" "$(checkpoint "$2" "$3")/${shard##*/}"
    done
}

# pid_of RANK OUTPUT-DIR: in the run that was started with that directory.
pid_of() {
    local pid
    for pid in $(pgrep -f "^$gptrain --config run.yaml --set output_dir=$2 "); do
        if tr '\0' '\n' <"/proc/$pid/environ" | grep -qx "OMPI_COMM_WORLD_RANK=$1"; then
            echo "$pid"
        fi
    done
}

# two_nodes [SETUP]: sets `two_nodes`, the options with which mpirun takes this machine for two
# nodes, nodea and nodeb. Each starts with the command SETUP, which finds the node's name in $node.
two_nodes() {
    # A daemon's folder for temporary files is its own: two that make theirs at once can fail.
    cat >start-daemon <<END
#!/bin/sh
export node=\$1 TMPDIR="$work/tmp-\$1"
shift
mkdir -p "\$TMPDIR"
exec ${1:+$1} sh -c "\$*"
END
    chmod +x start-daemon
    two_nodes=(--host nodea:2,nodeb:2 -mca plm_rsh_agent "$work/start-daemon" -mca btl self,tcp)
}

# late_losses OUTPUT-DIR: the losses of steps 4 to 6.
late_losses() { sed -n 's/^{"step": \([4-6]\), "loss": \([^,]*\),.*/\1 \2/p' "$1/metrics.jsonl"; }

# late_near A B: the losses after step 3 are equal, but for rounding.
late_near() {
    (($(late_losses "$1" | wc -l) == 3)) || fail "$1: $(late_losses "$1")"
    paste <(late_losses "$1") <(late_losses "$2") | awk '
        { apart = $2 > $4 ? $2 - $4 : $4 - $2
          if (NF != 4 || $1 != $3 || apart > 1e-4 * $2) exit 1 }' ||
        fail "$1 and $2: $(paste <(late_losses "$1") <(late_losses "$2"))"
}

# resumes_on_meshes MESH...: on each mesh a run of six steps that stops after three, and in which
# microbatches run alone, equals one that does not, and has the losses of mesh one, which comes first.
resumes_on_meshes() {
    local mesh
    for mesh in "$@"; do
        run_on "$mesh" "$mesh"
        run_on "$mesh" "$mesh-parts" training.steps=3 lr_schedule.decay_steps=20
        run_on "$mesh" "$mesh-parts" faults.replay_interval=2
        history "$mesh" >"$mesh.history"
        history "$mesh-parts" >"$mesh-parts.history"
        same "$mesh.history" "$mesh-parts.history"
        same_shards "$mesh" "$mesh-parts" 6
        late_near "$mesh" one
    done
}
