#!/usr/bin/env bash
# Usage: shard_ranks.sh GPTRAIN GPT-PREPROCESS MPIRUN. Whatever ranks divide among them
# (parallel.shard), a run has the losses of one that divides nothing, to the bit where sums have the
# same order, goes on with any other value, and takes the memory that its dry run predicts.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/rank_lib.sh"
export OMP_NUM_THREADS=1
make_data
make_spec
# Norms of gradients are sums of other parts, so that the last bit of a clip factor may differ.
common="parallel.data=2 training.steps=6 training.seq_length=24 lr_schedule.decay_steps=6
    precision.compute=bf16 model.dropout=0.1 checkpoint.interval=0 optimizer.clip_grad=0"
losses() { sed -n 's/^{"step": \([0-9]*\), "loss": \([^,]*\),.*/\1 \2/p' "$1/metrics.jsonl"; }
# near A B: the same but for the order of sums.
near() {
    (($(losses "$1" | wc -l) == 6)) || fail "$1: $(losses "$1")"
    paste <(losses "$1") <(losses "$2") | awk '
        { apart = $2 > $4 ? $2 - $4 : $4 - $2
          if (NF != 4 || $1 != $3 || apart > 2e-3 * $2) exit 1 }' ||
        fail "$1 and $2: $(paste <(losses "$1") <(losses "$2"))"
}
equal() {
    (($(losses "$1" | wc -l) == 6)) || fail "$1: $(losses "$1")"
    [[ $(losses "$1") == $(losses "$2") ]] || fail "$1 and $2: $(paste <(losses "$1") <(losses "$2"))"
}

# `one`: a rank has one microbatch in a step, so that the sums over ranks are the only ones. `many`:
# the first rank has three, the other two and an empty one.
one="training.micro_batch_size=1 training.global_batch_size=2"
many="training.micro_batch_size=1 training.global_batch_size=5"
for shard in none optimizer gradients weights; do
    train_ranks 0 2 one-$shard $common $one parallel.shard=$shard
    train_ranks 0 2 many-$shard $common $many parallel.shard=$shard
done
# In one of them microbatches run alone.
train_ranks 0 2 alone $common $many parallel.shard=weights faults.replay_interval=1
equal alone many-weights
for shard in optimizer gradients weights; do
    equal one-$shard one-none
    near many-$shard many-none
done
equal many-optimizer many-none
equal many-weights many-gradients
# Kept weights, and other recomputation, change no bit either.
train_ranks 0 2 kept $common $many parallel.shard=weights parallel.reshard=false recompute=full
equal kept many-weights

# A run that changes the value every two steps, by the former key as well.
for part in "2 parallel.shard=weights" "4 parallel.shard_optimizer=false" "6 parallel.shard=gradients"; do
    train_ranks 0 2 changing $common $many training.steps=${part% *} ${part#* }
    [[ $part == 2* ]] || says out "after step $((${part%% *} - 2))"
done
near changing many-none
train_ranks 0 4 groups $common $many parallel.data=4 parallel.shard=weights parallel.shard_ranks=2
near groups many-none

# The memory of the dry run is that of the run, and half of the weights, gradients and state.
bytes_of() { awk -v row="  $1  " 'index($0, row) == 1 { print $NF }' "$2"; }
for shard in none weights; do
    settings output_dir=dry $common $many parallel.shard=$shard
    expect_exit 0 "$gptrain" --config run.yaml "${set[@]}" --dry-run --world-size 2
    predicted=$(predicted_bytes)
    mv out $shard.dry
    says many-$shard/metrics.jsonl "\"memory_bytes\": $predicted,"
done
says weights.dry "gathered weights" "gathered gradients"
for row in "weights" "main gradients" "optimizer"; do
    whole=$(bytes_of "$row" none.dry)
    part=$(bytes_of "$row" weights.dry)
    awk -v whole="$whole" -v part="$part" 'BEGIN { exit !(whole > 0 && part > 0.45 * whole && part < 0.55 * whole) }' ||
        fail "$row: $part of $whole bytes"
done

# Through a save each of two ranks takes the memory that is planned, within 3 %. Pages of files do not
# count: those of the program and its libraries, which all ranks of a machine share, and of tokens.
own_kib() { awk '/^Rss(Anon|Shmem):/ { sum += $2 } END { print sum + 0 }' "/proc/$1/status" 2>/dev/null || echo 0; }
large=($common $one precision.compute=fp32 parallel.shard=weights training.steps=1 model.hidden_size=512
    model.vocab_size=60000)
start_ranks 2 large "${large[@]}"
pids=()
peaks=(0 0)
while kill -0 $launcher 2>/dev/null; do
    for rank in 0 1; do
        [[ -n ${pids[rank]:-} ]] || pids[rank]=$(pid_of $rank large)
        kib=$(own_kib "${pids[rank]:-0}")
        ((kib <= peaks[rank])) || peaks[rank]=$kib
    done
    sleep 0.01
done
end_ranks 0 "2 ranks, large"
says out "saved "
planned=$(sed -n 's/.*"memory_bytes": \([0-9]*\).*/\1/p' large/metrics.jsonl)
for kib in "${peaks[@]}"; do
    awk -v kib="$kib" -v planned="${planned:-0}" 'BEGIN {
        over = 1024 * kib / planned
        printf "%.1f MiB of %.1f planned: %.4f\n", kib / 1024, planned / 1048576, over
        exit !(over > 0.97 && over < 1.03) }' || fail "a rank takes $kib KiB, planned are $planned bytes"
done

# Values that do not go together: one line that says what to do.
refused() {
    settings output_dir=refused $common "${@:2}"
    expect_exit 2 "$gptrain" --config run.yaml "${set[@]}" --dry-run --world-size 2
    says err "$1"
}
refused "cannot be used with parallel.schedule zero_bubble" parallel.shard=gradients parallel.schedule=zero_bubble
refused "must divide parallel.data x context = 2" parallel.shard_ranks=3
refused "is the former form of parallel.shard" 'parallel={shard: none, shard_optimizer: true}'

finish
