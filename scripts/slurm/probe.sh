#!/usr/bin/env bash
# Finds out whether a node is fit for another start, as a step of the job on that node:
#
#   probe.sh JOB DEVICE FOLDER...
#
# Ends what earlier starts of the job have left there, however far it has moved from its parents, and
# waits until the GPUs have given back its memory. Exit code 1 and a line if the node is not fit:
# processes that do not end, a GPU that is lost, a folder that cannot be written.
unfit() {
    echo "${SLURMD_NODENAME:-$HOSTNAME} is not fit for a start: $*" >&2
    exit 1
}
left_over() { grep -lsz "^GPTRAIN_START=$job\\." /proc/[0-9]*/environ | cut -d / -f 3; }
memory_used() { nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits 2>&1; }

job=$1 device=$2
for ((tries = 0; tries < 20; ++tries)); do
    mapfile -t processes < <(left_over)
    ((${#processes[@]})) || break
    kill -KILL "${processes[@]}" 2>/dev/null
    sleep 0.2
done
((${#processes[@]} == 0)) || unfit "processes of an earlier start do not end: ${processes[*]}"

if [[ $device != cpu ]] && command -v nvidia-smi >/dev/null; then
    for ((tries = 0; tries < 8; ++tries)); do
        memory=$(memory_used) || unfit "nvidia-smi: ${memory##*$'\n'}"
        # In MiB. What stays in use may belong to another job.
        awk '$1 > 1024 { used = 1 } END { exit used }' <<<"$memory" && break
        sleep 0.5
    done
fi

for folder in /dev/shm "${@:3}"; do
    [[ -w $folder ]] || unfit "$folder cannot be written"
done
