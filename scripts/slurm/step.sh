# shellcheck shell=bash
# A start of gptrain: one step of the job, on the nodes in `active`. Sourced by train.sh, for its
# variables.

# Lines that show that a step is lost, although srun may wait for its other tasks for a long time: a
# task that was killed, ended with 6 or was not launched, a message of Slurm's by which ranks find each
# other and that could not be sent, the error of a rank, the words of Open MPI in a rank that has lost
# another one.
lost='^srun: error: tasks? [0-9,-]+ launch failed
^srun: error: [^ ]+: tasks? [0-9,-]+: (Exited with exit code (6|1[2-9].|2..)$|[^E])
^slurmstepd-[^ ]+: error: +mpi/pmix[^ ]*: .*(exceeded the retry limit|Cannot send message)
^([0-9]+: )?gptrain: error: 
^([0-9]+: )?An MPI communication peer process has unexpectedly disconnected'
# For how many seconds a lost step may go on.
patience=5

# Ranks are placed by block: those of tp are neighbours and belong on one node. Ranks with several
# cores are bound to them by block as well, because the first GPUs usually hang on the first socket.
# A step does not inherit the job's CPUs per task. --kill-on-bad-exit: otherwise ranks would wait for
# one that has left. --overlap: Slurm may keep the cores of a step that a lost node has ended.
options_of_step() {
    local nodes=${#active[@]}
    options=(--mpi="${GPTRAIN_MPI:-pmix}" --kill-on-bad-exit=1 --export=ALL --overlap
        --nodes="$nodes" --nodelist="$(list_of "${active[@]}")"
        --distribution="${SLURM_DISTRIBUTION:-block:block}")
    [[ $nodes == "$SLURM_NNODES" && -z $forgotten ]] ||
        options+=(--ntasks=$((nodes * tasks_per_node)) --ntasks-per-node="$tasks_per_node")
    [[ -z ${SLURM_CPUS_PER_TASK:-} ]] ||
        options+=(--cpus-per-task="$SLURM_CPUS_PER_TASK" --cpu-bind=cores --mem-bind=local)
}

# gone PROCESS SECONDS: waits until it has ended; false if it takes longer than that.
gone() {
    local tries
    for ((tries = 0; tries <= 2 * $2; ++tries)); do
        kill -0 "$1" 2>/dev/null || return 0
        sleep 0.5
    done
    return 1
}

# go_on SRUN: an srun, which is two processes, passes on neither what the ranks say nor that they have
# ended while it is stopped.
go_on() {
    local process
    for process in "$1" $(pgrep -P "$1"); do
        ! grep -qs '^State:.T' "/proc/$process/status" || kill -CONT "$process" || true
    done
}

# Runs gptrain; sets `code`, and `failed_at` to the time at which its end showed. Signals are for
# gptrain: the process that copies its errors has to outlive it. The code is srun's even if the disk is
# too full for the copy.
run_step() {
    local options copier step why deadline failed=""
    ((++start))
    options_of_step
    [[ -z ${failed_at:-} || -n ${growing:-} ]] || failed=$((EPOCHSECONDS - SECONDS + failed_at))
    growing="" failed_at=""
    : >"$errors"
    exec 4> >(trap '' TERM && exec tee "$errors" >&2)
    copier=$!
    GPTRAIN_START=$self.${SLURM_RESTART_COUNT:-0}.$start GPTRAIN_FAILED=$failed \
        srun "${options[@]}" "${srun_options[@]}" "${gptrain[@]}" --config "$spec" \
        "${arguments[@]}" 2>&4 4>&- &
    step=$!
    exec 4>&-
    while ! gone "$step" 0; do
        go_on "$step"
        if [[ -n $failed_at ]]; then
            ((SECONDS >= deadline)) || continue
            say "srun has not ended $patience s after this line, and is killed: $why"
            kill -KILL "$step" 2>/dev/null || true
            deadline=$((SECONDS + patience))
        elif why=$(grep -m 1 -E "$lost" "$errors"); then
            failed_at=$SECONDS deadline=$((SECONDS + patience))
        elif more_nodes; then
            say "the run saves and goes on with more nodes"
            growing=yes
            kill -USR1 "$step" || true
        fi
    done
    code=0
    wait "$step" || code=$?
    failed_at=${failed_at:-$SECONDS}
    gone "$copier" 2 || kill -KILL "$copier" 2>/dev/null || true
    code=$(code_of_program "$code")
}

# code_of_program CODE: gptrain's exit code where srun's CODE hides it. The signal that ended the
# other ranks hides the code of the rank that failed, and so does the 6 of ranks that have lost it.
# For a task that the kernel killed for memory srun has 1 or, in some versions, 125. A node or the
# network may be lost before the tasks have started; in a job's first start its settings are more
# likely wrong.
code_of_program() {
    local code=$1 first
    ((code != 1 && code != 125)) || ! grep -qE '^srun: error: .*: Out Of Memory$' "$errors" || code=137
    first=$(sed -nE '/^srun: error: .*: Exited with exit code [2-5]$/{s/.* //p; q}' "$errors") || true
    ((code != 6 && code <= 128)) || code=${first:-$code}
    ((code != 1)) || ! grep -qE '^srun: error: Task launch for .* failed on node' "$errors" || code=6
    ((code != 1 || start + ${SLURM_RESTART_COUNT:-0} == 1)) ||
        ! grep -qE '^srun: error: Unable to create step|An error occurred in MPI_Init' "$errors" || code=6
    echo "$code"
}
