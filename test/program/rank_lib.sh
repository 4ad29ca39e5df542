# Shared by the scripts that start several ranks, after lib.sh. Their third argument: MPIRUN.
mpirun=${3:-mpirun}
command -v "$mpirun" >/dev/null || not_run "there is no $mpirun"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1
export OMPI_MCA_hwloc_base_binding_policy=none
# Its own memory is never given back.
export ASAN_OPTIONS=detect_leaks=0

# ran CODE EXIT-CODE WHAT: checks a launch; of what was said, mpirun's own lines are left out.
ran() {
    grep -E '^(gptrain|warning): ' err >own || true
    mv own err
    check_exit "$@"
}

# pid_of RANK OUTPUT-DIR: of the run that was started with that directory.
pid_of() {
    local pid
    for pid in $(pgrep -f "^$gptrain --config run.yaml --set output_dir=$2 "); do
        if tr '\0' '\n' <"/proc/$pid/environ" | grep -qx "OMPI_COMM_WORLD_RANK=$1"; then
            echo "$pid"
        fi
    done
}
