# shellcheck shell=bash
# Faults of the job $job at random moments, for slurm_faults.sh in a soak, which sources this file.
#
#   random_faults NUMBER   so many, each up to 5 seconds after a new checkpoint with all nodes there (hours
#                          lie between faults in reality); measures them
#   after FAULT SECONDS    that command, then the time until the run trains again, at most so long
#
# Of 100 faults 61 are of a GPU or its memory (the node is not fit until the run trains again, and a
# rank dies), 13 of software (a rank is killed), 12 of the network (a node is cut off for 20 seconds),
# 8 of a host (it dies, and is back after 15 seconds), and in 6 a process stands still: the shares in
# which Llama 3 405B was interrupted 419 times in 54 days on 16,384 GPUs (Grattafiori et al. 2024,
# arXiv 2407.21783, table 5), where the last one stands for what has no name. After every fifth fault a
# rank is killed while the run starts again.

now_ms() { echo $((${EPOCHREALTIME/[.,]/} / 1000)); }
logged_step() { grep -oE '^\{"step": [0-9]+, "loss"' $name/metrics.jsonl | tail -n 1 | grep -oE '[0-9]+'; }
resumed_step() { grep '^{"event": "resume"' $name/metrics.jsonl | tail -n 1 | grep -oE '[0-9]+'; }
starts() { grep -oE '^start [0-9.]+: rank' $name.log | sort -u | wc -l; }

# later SECONDS COMMAND...
later() { (sleep "$1" && "${@:2}") & }
return_node() { touch "away-$1" && later 15 start_again "$1"; }
join_again() { join_node "$1" && rm "away-$1"; }
# In this shell, which knows the processes of nodes: on the next call of `returned`.
start_again() { touch "returns-$1"; }
returned() {
    local file
    for file in returns-*; do
        [[ -e $file ]] || return 0
        rm "$file"
        start_node "${file#returns-}"
        rm "away-${file#returns-}"
    done
}
# whole: no node is away, and Slurm knows it.
whole() {
    local there=(sinfo --noheader --Node --responding --partition=three --states=idle,alloc,mix --format=%N)
    ! compgen -G "away-*" >/dev/null && (($("${there[@]}" | wc -l) == 3))
}
# What shows why a job stands still.
state_of_job() {
    tail -n 40 $name.log
    timeout 5 squeue
    timeout 5 sinfo --Node
    ps -e --forest -o pid,etimes,stat,wchan:16,args | cut -c -200
}
# other_node: one of the run's nodes that is not that of the batch script.
other_node() { places | tr ' ' '\n' | grep -v '^n1$' | tail -n 1; }

fault_of_gpu() { node=$(other_node) && touch "lost-$node" && signal_rank KILL $((RANDOM % 4)); }
fault_of_software() { signal_rank KILL $((RANDOM % 4)); }
fault_of_network() {
    [[ -n $cuts ]] || { fault_of_software && return; }
    node=$(other_node) && touch "away-$node" && cut_node "$node" && later 20 join_again "$node"
}
fault_of_host() { node=$(other_node) && lose_node "$node" && return_node "$node"; }
fault_without_name() { signal_rank STOP $((RANDOM % 4)); }

# outlived FAULT: the network was back before the silence was one too many, and the run has gone on.
outlived() {
    [[ $1 == fault_of_network ]] && ! compgen -G "away-*" >/dev/null &&
        (($(starts) == started && $(logged_step) > step + 4))
}

# resumed NUMBER: more than so many starts have resumed, and the last one trains.
resumed() { (($(resumes) > $1)) && tail -n 1 $name/metrics.jsonl | grep -q '"loss"'; }

after() {
    local before begun seconds step started restarted="" old again i
    step=$(logged_step) before=$(resumes) started=$(starts) begun=$(now_ms)
    "$1"
    if [[ -n ${twice:-} ]]; then
        # In the start that follows, before its first step or soon after.
        until (($(starts) > started)) || outlived "$1"; do
            sleep 0.1
            returned
            (($(now_ms) - begun < 1000 * $2)) || break
        done
        sleep 0.$((RANDOM % 10))
        ! outlived "$1" || begun=$(now_ms)
        before=$(resumes) step=$(logged_step) started=$(starts)
        signal_rank KILL $((RANDOM % 4)) 2>/dev/null
    fi
    until outlived "$1" || resumed "$before"; do
        [[ -n $restarted ]] || (($(starts) == started)) || restarted=$(now_ms)
        sleep 0.1
        returned
        (($(now_ms) - begun < 1000 * $2)) || { fail "$1: no training after $2 s: $(state_of_job)"; finish; }
    done
    seconds=$(awk -v ms=$(($(now_ms) - begun)) 'BEGIN { printf "%.1f", ms / 1000 }')
    old=$(($(now_ms) - ${restarted:-$(now_ms)})) again=$((step - $(resumed_step)))
    (($(starts) > started)) || again=0
    echo "$1${twice:+ twice}: training again after $seconds s, $old ms of them since its ranks started," \
        "$again steps again"
    echo "$1 $seconds $old $again" >>faults.measured
    rm -f lost-*
    # Ranks that were cut off end by themselves, and a disk may have kept others.
    for ((i = 0; i < 300; ++i)); do
        [[ -n $(left_over) ]] || break
        sleep 0.1
        returned
    done
    [[ -z $(left_over) ]] || fail "$1: processes of earlier starts: $(left_over)"
}

random_faults() {
    local i draw newest first=$SECONDS
    RANDOM=${GPTRAIN_SOAK_SEED:-58}
    for ((i = 1; i <= $1; ++i)); do
        until whole; do sleep 0.5; returned; done
        newest=$(newest_step $name)
        until (($(newest_step $name) > newest)); do sleep 0.1; returned; done
        sleep $((RANDOM % 5)).$((RANDOM % 10))
        draw=$((RANDOM % 100)) twice=""
        ((i % 5)) || twice=yes
        if ((draw < 61)); then
            after fault_of_gpu 180
        elif ((draw < 74)); then
            after fault_of_software 180
        elif ((draw < 86)); then
            after fault_of_network 180
        elif ((draw < 94)); then
            after fault_of_host 180
        else
            after fault_without_name 180
        fi
    done
    twice=""
    spent=$((SECONDS - first))
}

# Both nodes that are not that of the batch script, one of them the spare; and a disk that answers no
# write for 20 seconds, so that the processes that write cannot even be killed.
fault_of_two_hosts() { lose_node n2 && lose_node n3 && return_node n2 && return_node n3; }
fault_of_disk() { fsfreeze --freeze disk && sleep 20 && fsfreeze --unfreeze disk; }

# figures: the median, the 90th percentile and the largest of a column of the measured faults.
figures() {
    cut -d ' ' -f "$1" faults.measured | sort -n | awk '{ values[NR] = $1 } END {
        print values[int((NR + 1) / 2)] ", " values[int((9 * NR + 9) / 10)] " and " values[NR] }'
}
