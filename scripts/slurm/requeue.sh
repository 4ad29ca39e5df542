# shellcheck shell=bash
# How train.sh puts its job back into the queue, which nodes the job leaves out, and when a job is in a
# crash loop. Sourced by it, for its variables.

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

job_says() { scontrol --oneliner show job "$self" | sed "s/.* $1=\([^ ]*\).*/\1/"; }

# Adds the job and its nodes that errors name, each in a line of the file:
# "gptrain: error: hang: rank 3 (dp 3 pp 0 cp 0 tp 0) on n2, ...", after "0: " with srun --label.
count_faults() {
    local error='^([0-9]+: )?gptrain: error: (hang: )?rank [0-9]+ \([^)]*\) on ([^ ,:;.]+).*'
    sed -nE "s/$error/\\3/p" "$errors" |
        sort -u | grep -Fx -f <(scontrol show hostnames "$SLURM_JOB_NODELIST") |
        sed "s/^/$self /" >>"$faults" || true
}

# The nodes that errors named in two starts of the job.
faulty_nodes() {
    [[ ! -f $faults ]] || sort "$faults" | uniq -d | sed -n "s/^$self //p"
}

# The nodes of a list in Slurm's form, n[1-3], one per line.
nodes_in() { [[ $1 == "(null)" ]] || scontrol show hostnames "$1"; }

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
        sbatch --test-only --wrap=true --nodes="$min_nodes" --exclude="$1" "${like[@]}" &>/dev/null
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

# Puts the job back into the queue, unless it is in a crash loop: $state holds the job, the run's
# progress when it was last put back, and how often in a row that has been the same.
requeue() {
    local code=$1 state=$output_dir/slurm-restarts newest now job="" before="" restarts=""
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
    say "gptrain ended with code $code, newest checkpoint: $newest; back into the queue"
    local faulty excluded list="" update=()
    faulty=$(faulty_nodes)
    if ((code == 75)); then rm -f "$faults"; else count_faults; fi
    if [[ $(faulty_nodes) != "$faulty" ]]; then
        excluded=$(nodes_in "$(job_says ExcNodeList)" | grep -vFx -e "$faulty") || true
        list=$(printf '%s\n' "$excluded" "$(faulty_nodes)" | grep . | sort -u | paste -sd ,) || true
        if can_do_without "$list"; then
            update=(ExcNodeList="$list")
        else
            say "without $list Slurm has too few nodes for this job, which needs $min_nodes, so" \
                "it keeps them; docs/slurm.md explains how to run with fewer"
        fi
    fi
    # Slurm changes only the nodes of queued jobs, and soon ends this script then.
    trap '' TERM
    put_back || end "$code" "Slurm does not put the job back into the queue"
    # Slurm would demand as many tasks as the job had before.
    ((min_nodes == SLURM_NNODES)) || scontrol update JobId="$self" \
        NumTasks=$((min_nodes * ${SLURM_NTASKS:-$SLURM_NNODES} / SLURM_NNODES)) || true
    if ((${#update[@]})) && scontrol update JobId="$self" "${update[@]}"; then
        say "nodes that the job does not take: ${list:-none}"
    fi
}
