#!/usr/bin/env bash
# Usage: kill_ranks.sh GPTRAIN GPT-PREPROCESS MPIRUN. One of two ranks that save all the time is
# killed at any moment, while it or the other one writes. The next start divides other state among
# them.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/rank_lib.sh"
. "$(dirname "$0")/kill_lib.sh"
make_data
make_spec
sed -i 's/interval: 10/interval: 1/; s/num_samples: 60/num_samples: 200000/' run.yaml

shards=(optimizer weights)
wanted=10
if soak; then wanted=100; fi
while ((kills < wanted)); do
    before=$last
    start_ranks 2 killed parallel.data=2 parallel.shard=${shards[kills / 2 % 2]} training.steps=100000
    wait_for out 'saved '
    sleep 0.$((RANDOM % 10))$((RANDOM % 10))
    first=$(pid_of 0 killed)
    kill -KILL "$(pid_of $((kills % 2)) killed)"
    { wait $launcher; } 2>/dev/null
    check_killed killed "$first"
    ((last > before)) || fail "killed: from $before to $last"
    ((failures == 0)) || finish
done
train_ranks 0 2 killed parallel.data=2 training.steps=$((last + 1))
says out "resumed from" "after step $last"
nothing_left killed

proof killed-ranks "$(kill_figures)"
finish
