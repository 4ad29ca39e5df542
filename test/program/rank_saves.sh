#!/usr/bin/env bash
# Usage: rank_saves.sh GPTRAIN GPT-PREPROCESS MPIRUN. Two ranks that save in the background, with a
# disk that is full for one of them, and with damage that one of them meets.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/rank_lib.sh"
make_data
make_spec
sed -i 's/steps: 20/steps: 60/g; s/num_samples: 60/num_samples: 130/; s/interval: 10/interval: 1/' \
    run.yaml

# saves: how many were committed so far.
saves() { grep -c '^saved ' out; }

train_ranks 0 2 whole parallel.data=2
(($(saves) == 60)) || fail "$(saves) checkpoints of 60 steps"
[[ $(ls whole/checkpoints | wc -w) == 3 ]] || fail "kept: $(ls whole/checkpoints)"

# The disk is full for rank 1: training continues, and once there is room so do the checkpoints.
# Steps take less than a millisecond: the run must not fail three times before this script has looked.
start_ranks 2 full parallel.data=2 training.steps=1000000 data.num_samples=2000000 \
    checkpoint.interval=1000
wait_for out 'saved '
prlimit --pid "$(pid_of 1 full)" --fsize=4096:unlimited
wait_for err 'training continues'
says err "warning: rank 1 (dp 1 pp 0 cp 0 tp 0) on " "full/checkpoints/step-" "File too large"
prlimit --pid "$(pid_of 1 full)" --fsize=unlimited
before=$(saves)
for ((i = 0; i < 3000 && $(saves) < before + 2; ++i)); do sleep 0.02; done
(($(saves) >= before + 2)) || fail "no checkpoint after there was room again"
# Until it has failed three times in a row.
warned=$(grep -c 'training continues' err)
prlimit --pid "$(pid_of 1 full)" --fsize=4096:unlimited
wait $launcher
code=$?
(($(grep -c 'training continues' err) == warned + 2)) || fail "not 2 warnings before the end: $(cat err)"
ran 5 $code "a disk that stays full for rank 1"
says err "rank 1 (dp 1 pp 0 cp 0 tp 0) on " "File too large"
newest=$(ls full/checkpoints | tail -n 1)
last=$(sed -n 's/^{"step": \([0-9]*\), "loss".*/\1/p' full/metrics.jsonl | tail -n 1)
((last >= 10#${newest#step-} + 3000)) || fail "training did not go on: $newest, step $last"
nothing_left full
expect_exit 0 "$gptrain" inspect full/checkpoints --verify
says_not out damaged

# Damage that only rank 1 reads: both use the older checkpoint, and end with the same bits.
cp -r whole damaged
shard=$(checkpoint damaged 60)/shard-00001.h5
printf '\x5a\xa5' | dd of="$shard" bs=1 seek=$(($(wc -c <"$shard") / 2)) conv=notrunc status=none
train_ranks 0 2 damaged parallel.data=2
says warnings "warning: rank 1 (dp 1 pp 0 cp 0 tp 0) on " "step-000060/shard-00001.h5: dataset /" "is damaged in bytes ["
says out "after step 59" "finished after step 60"
history whole >a.history
history damaged >b.history
same a.history b.history
same_shards whole damaged 60

finish
