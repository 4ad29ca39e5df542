# shellcheck shell=bash
# Which nodes of the job the next start takes. Sourced by train.sh, for its variables.

# The nodes of a list in Slurm's form, n[1-3], one per line.
nodes_in() { [[ $1 == "(null)" ]] || scontrol show hostnames "$1"; }
# list_of NODE...: the same nodes with commas.
list_of() { local IFS=,; echo "$*"; }
# Lines of stdin that are, or are not, among the lines of $1.
among() { grep -Fx -f <(printf '%s\n' "$1"); }
not_among() { if [[ -n $1 ]]; then grep -vFx -f <(printf '%s\n' "$1"); else cat; fi; }

job_says() { scontrol --oneliner show job "$self" | sed "s/.* $1=\([^ ]*\).*/\1/"; }

# The nodes that the job has; with --no-kill, Slurm takes those that it has lost from it. If Slurm
# does not answer, those that it began with.
nodes_of_job() {
    local all now
    all=$(nodes_in "$SLURM_JOB_NODELIST")
    now=$(timeout 10 squeue --noheader --jobs "$self" --format %N) &&
        now=$(nodes_in "$now" 2>/dev/null | among "$all") || now=$all
    echo "$now"
}

# False if the job is about to end, or Slurm has put it back already.
job_runs() {
    local state
    state=$(timeout 10 squeue --noheader --jobs "$self" --format %T) || true
    [[ ! $state =~ ^(CANCELLED|COMPLETING|PENDING|PREEMPTED|REQUEUED|TIMEOUT) ]]
}

# on_node NODE SCRIPT ARGUMENTS...: runs a script of this folder there, after the words of `within`.
on_node() {
    ${within:-} srun --overlap --nodes=1 --ntasks=1 --ntasks-per-node=1 --nodelist="$1" --mpi=none \
        --export=ALL bash -c "$(<"$scripts/$2")" "$2" "${@:3}"
}

# fit NODE...: those of them that are fit for a start, in any order. A node that is lost does not
# answer. All at once, so that one of them takes no longer than many.
fit() {
    local node within="timeout --kill-after=1 10"
    for node; do
        { on_node "$node" probe.sh "$self" "$device" "$output_dir" >/dev/null && echo "$node"; } &
    done
    wait
}

# Adds the job and its nodes that errors name, each in a line of the file:
# "gptrain: error: hang: rank 3 (dp 3 pp 0 cp 0 tp 0) on n2, ...", after "0: " with srun --label. If
# there is no such error, the node where tasks were killed, if it is one:
# "srun: error: n2: task 3: Killed". Where a microbatch gave different results
# (faults.replay_interval), all nodes that the error names count, and one alone as named in two starts.
count_faults() {
    local error='^([0-9]+: )?gptrain: error: (hang: )?rank [0-9]+ \([^)]*\) on ([^ ,:;.]+).*'
    local killed='^srun: error: ([^ :]+): tasks? [0-9,-]+: [^ET].*' named differing
    differing=$(sed -n 's/: two runs of a microbatch .*//p' "$errors" | grep -oE '\) on [^ ,:;.]+' |
        sed 's/^) on //' | sort -u) || true
    named=$({ sed -nE "s/$error/\\3/p" "$errors" && echo "$differing"; } | sort -u | grep .) || true
    [[ $(wc -w <<<"$differing") != 1 ]] || named+=$'\n'$differing
    [[ -n $named ]] || named=$(sed -nE "s/$killed/\\1/p" "$errors" | sort -u |
        awk '{ node = $0 } END { if (NR == 1) print node }')
    among "$(nodes_in "$SLURM_JOB_NODELIST")" <<<"$named" | sed "s/^/$self /" >>"$faults" || true
}

# The nodes that errors named in two starts of the job.
faulty_nodes() {
    [[ ! -f $faults ]] || sort "$faults" | uniq -d | sed -n "s/^$self //p"
}

# mesh_fits NODES: true if gptrain can train on so many.
mesh_fits() {
    timeout 60 "${alone[@]}" "${gptrain[@]}" --config "$spec" "${arguments[@]}" --dry-run \
        --world-size $(($1 * tasks_per_node)) &>/dev/null
}

# usable NODES: the largest number, up to that and `wanted`, of nodes that a start can take; false if
# that is not enough.
usable() {
    local number
    for ((number = $1 < wanted ? $1 : wanted; number >= enough; --number)); do
        ((number == wanted)) || mesh_fits "$number" || continue
        echo "$number"
        return
    done
    return 1
}

# Sets `active` to the nodes of the next start; false if the job has too few. The nodes of the last
# start come first, which have its local copies.
choose_nodes() {
    local used now all answers good number
    used=$(printf '%s\n' "${active[@]}")
    now=$(nodes_of_job)
    all=$(among "$now" <<<"$used"; not_among "$used" <<<"$now") || true
    answers=$(fit $all)
    mapfile -t healthy < <(among "$answers" <<<"$all")
    mapfile -t good < <(among "$answers" <<<"$all" | not_among "$(faulty_nodes)")
    if number=$(usable ${#good[@]}); then
        active=("${good[@]:0:number}")
        return
    fi
    # Others of the cluster may take the place of the faulty ones.
    ((${#healthy[@]} >= wanted)) && ! can_do_without "$(list_of $(faulty_nodes))" || return 1
    active=("${healthy[@]:0:wanted}")
}

# True, at most once a minute, if the run goes on without nodes that the job has, that are fit again and
# that it can use.
more_nodes() {
    local others number
    ((${#active[@]} < wanted && SECONDS >= next_look)) || return 1
    next_look=$((SECONDS + look_seconds))
    others=$(nodes_of_job | not_among "$(printf '%s\n' "${active[@]}" $(faulty_nodes))") || return 1
    number=$(usable $((${#active[@]} + $(fit $others | wc -l)))) && ((number > ${#active[@]}))
}

# Lets another node watch that of this script, whose life $alive shows. Without --no-kill Slurm does it.
watch_host() {
    local node
    ((spares > 0 || enough < wanted)) || return 0
    node=$(printf '%s\n' "${healthy[@]}" | not_among "${SLURMD_NODENAME:-}" | tail -n 1) || return 0
    if ((${#watchers[@]})); then
        kill -KILL "${watchers[1]}" 2>/dev/null || true
    else
        mkdir -p "$output_dir"
        # Not for a script that is stopped.
        while kill -0 $$ 2>/dev/null; do
            grep -q '^State:.T' /proc/$$/status || touch "$alive" || true
            sleep 1
        done &
        watchers[0]=$!
    fi
    within=exec on_node "$node" watch_host.sh "$self" "$alive" "$host_seconds" &>/dev/null &
    watchers[1]=$!
    disown -a  # killing them needs no words
}
