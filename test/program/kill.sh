#!/usr/bin/env bash
# Killed at any moment, a run resumes, and ends with the bits of a run that nobody killed.
. "$(dirname "$0")/lib.sh"
make_data
make_spec
sed -i 's/steps: 20/steps: 60/g; s/num_samples: 60/num_samples: 100/; s/interval: 10/interval: 2/
    s/eval_interval: 0/eval_interval: 9, eval_steps: 2/' run.yaml
train 0 whole
settings output_dir=killed

# What must hold in a directory whose run was just killed.
check_killed() {
    local newest
    expect_exit 0 "$gptrain" inspect killed/checkpoints --verify
    says_not out damaged
    newest=$(ls killed/checkpoints 2>/dev/null | grep -x 'step-[0-9]*' | tail -n 1)
    [[ -z $newest ]] || grep -q "^{\"step\": $((10#${newest#step-})), \"loss\"" killed/metrics.jsonl ||
        fail "$newest is there, its line in metrics.jsonl is not"
}

kills=0
while ((kills < 15)); do
    delay=0.$(printf %03d $((20 + RANDOM % 400)))
    "$gptrain" --config run.yaml "${set[@]}" >out 2>err &
    pid=$!
    sleep "$delay"
    # Its lock is free once it has been waited for.
    { kill -KILL "$pid"; wait "$pid"; } 2>/dev/null
    code=$?
    if ((code == 137)); then
        kills=$((kills + 1))
        check_killed
    else
        check_exit 0 $code "run after $kills kills, the last of them $delay s after its start"
        same_run whole killed 60
        rm -rf killed
    fi
    ((failures < 5)) || finish
done
train 0 killed
same_run whole killed 60
[[ -z $(ls -A killed/checkpoints | grep -vx 'step-[0-9]*') ]] ||
    fail "left over: $(ls -A killed/checkpoints)"

finish
