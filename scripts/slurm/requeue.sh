# shellcheck shell=bash
# When a job is in a crash loop, and how train.sh puts it back into the queue, without which nodes.
# Sourced by it, for its variables.

# The step where the last start resumed, which may be from local copies.
resumed_step() {
    tac "$output_dir/metrics.jsonl" | grep -m 1 '^{"event": "resume", ' |
        sed -nE 's/.*"step": ([1-9][0-9]*).*/\1/p'
}

# The newest state that the run is known to have saved, as a checkpoint's name.
newest_state() {
    {
        ls "$output_dir/checkpoints" | grep -E '^step-[0-9]+$'
        resumed_step | xargs -r printf 'step-%06d\n'
        true
    } 2>/dev/null | sort -V | tail -n 1 | grep . || echo none
}

# One word that changes with every checkpoint that the run saves and with the step where it resumes.
# While a later checkpoint is damaged, the one that was saved last is not the newest by its step.
progress() {
    {
        find -H "$output_dir/checkpoints" -mindepth 2 -maxdepth 2 -regextype posix-extended \
            -regex '.*/step-[0-9]+/manifest\.json' -printf '%T@\n' | sort -n | tail -n 1
        resumed_step
        true
    } 2>/dev/null | paste -sd - | grep . || echo none
}

# This job's options that limit its nodes.
node_options() {
    scontrol --oneliner show job "$self" | tr ' ' '\n' | sed -nE '
        /=(\(null\)|0)?$/d
        s/^Account=/--account=/p; s/^QOS=/--qos=/p; s/^Reservation=/--reservation=/p
        s/^Partition=/--partition=/p; s/^TimeLimit=/--time=/p; s/^Features=/--constraint=/p
        s/^MinCPUsNode=/--mincpus=/p; s/^MinMemoryNode=/--mem=/p
        /^TresPerNode=/{s/gres[:\/]//g; s/^TresPerNode=/--gres=/p}'
}

# can_do_without LIST: true if Slurm has enough nodes for this job without those in the list.
can_do_without() {
    local like
    mapfile -t like < <(node_options)
    [[ -z $1 ]] ||
        timeout 60 sbatch --test-only --wrap=true --nodes="$min_nodes" --exclude="$1" "${like[@]}" \
            &>/dev/null || {
        say "without $1 Slurm has too few nodes for this job, which needs $min_nodes, so it keeps" \
            "them; docs/slurm.md explains how to run with fewer"
        return 1
    }
}

# Slurm may be away for some minutes, but what it does not allow it does not allow later.
put_back() {
    local tries why=""
    for ((tries = 0; tries < 60; ++tries)); do
        if why=$(scontrol requeue "$self" 2>&1); then return; fi
        [[ $why != *"presently disabled"* && $why != *"Invalid job id"* ]] || break
        ((tries)) || say "$why; trying again every 10 seconds for 10 minutes"
        sleep 10
    done
    say "$why"
    return 1
}

# Ends the job if it is in a crash loop: $state holds the job, the run's progress at its last restart,
# and how often in a row that has been the same. Sets `newest`.
count_restart() {
    local state=$output_dir/slurm-restarts now job="" before="" restarts=""
    newest=$(newest_state)
    now=$(progress)
    [[ ! -f $state ]] || read -r job before restarts <"$state" || true
    # The count of another job, of an earlier state, or damaged.
    [[ "$job $before" == "$self $now" && $restarts =~ ^[0-9]$ ]] || restarts=0
    ((restarts < max_restarts)) || end "$code" \
        "exit code $code after $restarts restarts without a new checkpoint (newest: $newest)"
    # Without a count there would be no end.
    mkdir -p "$output_dir" && echo "$self $now $((restarts + 1))" >"$state" ||
        end "$code" "exit code $code, and restarts cannot be counted in $state"
}

# Puts the job back into the queue. It leaves out the nodes that have become faulty since this script
# began, when they were $faulty_before.
requeue() {
    say "gptrain ended with code $code, newest checkpoint: $newest; back into the queue"
    local excluded list="" update=()
    ((code != 75)) || rm -f "$faults"
    if [[ $(faulty_nodes) != "$faulty_before" ]]; then
        excluded=$(nodes_in "$(job_says ExcNodeList)" | not_among "$faulty_before") || true
        list=$(printf '%s\n' "$excluded" "$(faulty_nodes)" | grep . | sort -u | paste -sd ,) || true
        ! can_do_without "$list" || update=(ExcNodeList="$list")
    fi
    # Slurm changes only the nodes of queued jobs, and soon ends this script then.
    trap '' TERM
    put_back || end "$code" "Slurm does not put the job back into the queue"
    # Slurm would demand as many tasks as the job had before.
    ((min_nodes == SLURM_NNODES)) || scontrol update JobId="$self" \
        NumTasks=$((min_nodes * tasks_per_node)) || true
    if ((${#update[@]})) && scontrol update JobId="$self" "${update[@]}"; then
        say "nodes that the job does not take: ${list:-none}"
    fi
}
