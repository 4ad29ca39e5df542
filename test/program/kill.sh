#!/usr/bin/env bash
# A run killed at any moment, also while it writes copies in memory, resumes, and ends with the bits of a run
# that was never killed.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/kill_lib.sh"
make_data
make_spec
sed -i 's/steps: 20/steps: 60/g; s/num_samples: 60/num_samples: 100/
    s/interval: 10/interval: 2, memory: shm, memory_interval: 1/
    s/eval_interval: 0/eval_interval: 9, eval_steps: 2/' run.yaml
train 0 whole

wanted=20
if soak; then wanted=400; fi
ended=0 from_memory=0
while ((kills < wanted)); do
    delay=0.$(printf %03d $((20 + RANDOM % 400)))
    start killed
    sleep "$delay"
    # Its lock is free once the process has been waited for.
    { kill -KILL "$pid"; wait "$pid"; } 2>/dev/null
    code=$?
    if ((code == 137)); then
        ! grep -q "(copies in memory)" out || ((++from_memory))
        check_killed killed "$pid"
    else
        check_exit 0 $code "run after $kills kills, the last of them $delay s after its start"
        same_run whole killed 60
        ended=$((ended + 1))
        last=0
        rm -rf killed
    fi
    ((failures < 5)) || finish
done
train 0 killed
same_run whole killed 60
nothing_left killed

((from_memory > 0)) || fail "no start took copies in memory"
proof killed-runs "$(kill_figures); $from_memory starts from copies in memory; $((ended + 1)) killed runs" \
    "ended with the bits of one that nobody killed"
finish
