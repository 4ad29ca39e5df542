#!/usr/bin/env bash
# 20 steps at once and 10 + resume + 10 give the same bits, whatever the run's settings.
. "$(dirname "$0")/lib.sh"
make_data
make_spec

# straight_and_resumed NAME KEY=VALUE...: the straight run is left as NAME.
straight_and_resumed() {
    local name=$1 resumed=$1-resumed
    shift
    train 0 "$name" "$@"
    train 0 "$resumed" "$@" training.steps=10
    says out "finished after step 10"
    train 0 "$resumed" "$@"
    says out "after step 10" "training.steps: 10 -> 20"
    same_run "$name" "$resumed" 20
}

# same_numbers A B: the runs differ only in the memory that they take.
same_numbers() {
    local run
    for run in "$1" "$2"; do
        history "$run" | sed 's/"memory_bytes": [0-9]*, //' >"$run.numbers"
    done
    (($(grep -c loss "$1.numbers") >= 20)) || fail "$1 has no 20 lines"
    same "$1.numbers" "$2.numbers"
    same "$(checkpoint "$1" 20)/shard-00000.h5" "$(checkpoint "$2" 20)/shard-00000.h5"
}

straight_and_resumed plain
straight_and_resumed bf16 precision.compute=bf16 model.dropout=0.1 model.activation=gelu_erf
straight_and_resumed fp16 precision.compute=fp16 recompute=full
# State and activations in host memory change no bit, nor does a resume that brings them there or back.
offload='offload={optimizer: true, main_weights: true, activations: blocks}'
straight_and_resumed offloaded precision.compute=fp16 recompute=full "$offload"
same_numbers fp16 offloaded
for first in "$offload" offload.optimizer=false; do
    rm -rf moved
    train 0 moved precision.compute=fp16 recompute=full training.steps=10 "$first"
    if [[ $first == "$offload" ]]; then second=offload.optimizer=false; else second=$offload; fi
    train 0 moved precision.compute=fp16 recompute=full "$second"
    same_numbers fp16 moved
done
# Accumulation, and a ramp-up in progress at step 10.
straight_and_resumed ramp training.micro_batch_size=2 training.global_batch_size=8 \
    "training.rampup={start: 2, increment: 2, samples: 50}" checkpoint.async=false
# A modern block, separate documents, evaluation, and more samples than one pass over the data.
straight_and_resumed modern model.position_embedding=rope model.normalization=rmsnorm \
    model.activation=swiglu model.bias=false model.tie_embeddings=false model.num_query_groups=1 \
    model.qkv_bias=true model.qk_norm=true model.sliding_window=5 model.full_attention_layers=[0] \
    "model.rope_scaling={kind: llama3, factor: 4, original_max_position_embeddings: 8}" \
    model.dropout=0.2 data.eod_mask_loss=true data.reset_at_eod=true data.num_samples=33 \
    training.eval_interval=5 training.eval_steps=2 lr_schedule.kind=wsd lr_schedule.warmup_steps=3 \
    lr_schedule.wsd_decay_steps=8
says out "pass 2"
(($(grep -c val_loss modern-resumed.history) == 4)) || fail "not 4 evaluations"

# In three parts, with a step in between that nothing asks to save or log.
for steps in 7 13 20; do
    train 0 parts training.steps=$steps logging.interval=1 checkpoint.interval=4
done
same_run plain parts 20

# number NAME OUTPUT-DIR STEP: from that step's line.
number() { sed -n "s/^{\"step\": $3, .*\"$1\": \([0-9.e+-]*\).*/\1/p" "$2/metrics.jsonl"; }

# Into another output directory, from an output directory or a checkpoint.
train 0 ten training.steps=10
for from in ten ten/checkpoints/step-000010; do
    options=(--resume "$from")
    train 0 other
    options=()
    says out "resumed from" "after step 10"
    [[ $(head -n 1 other/metrics.jsonl) == '{"event": "resume", "step": 10}' ]] ||
        fail "the first line is $(head -n 1 other/metrics.jsonl)"
    # The time account continues from the checkpoint's: no other file here has it.
    awk -v before="$(number useful ten 10)" -v step="$(number step_time_s other 11)" \
        -v after="$(number useful other 11)" \
        'BEGIN { more = after - before - step; exit !(before > 0 && more < 1e-9 && more > -1e-9) }' ||
        fail "useful seconds: $(number useful ten 10), then $(number useful other 11)"
    same "$(checkpoint plain 20)/shard-00000.h5" "$(checkpoint other 20)/shard-00000.h5"
    rm -rf other
done

# Settings that must not change any bit of the result.
for setting in recompute=none recompute=full checkpoint.async=false logging.tensorboard=false; do
    train 0 "$setting" "$setting"
    same "$(checkpoint plain 20)/shard-00000.h5" "$(checkpoint "$setting" 20)/shard-00000.h5"
done

# A longer run continues with samples that it has not read (training_data.cpp): the samples of a run
# that was as long from the start.
long() {
    train 0 "$@" data.num_samples=auto lr_schedule.kind=constant checkpoint.interval=0
    says_not out "pass 2"
}
long long-straight training.steps=140
long longer training.steps=100
long longer training.steps=140
says out "after step 100" "training.steps: 100 -> 140"
same_run long-straight longer 140

# Runs that began when auto meant the samples of all steps keep that order.
train 0 older-straight training.steps=15 data.num_samples=20
train 0 older training.steps=10 data.num_samples=20
make_old "$(checkpoint older 10)"
train 0 older training.steps=15 data.num_samples=auto
says out "after step 10" "pass 2 over the training samples starts at sample 20"
same_run older-straight older 15

# The learning rate follows the new number of steps, also with the run's own spec; a fixed number
# does not, which is reported.
train 0 decay training.steps=10 lr_schedule.decay_steps=auto data.num_samples=auto
cp decay/spec.yaml own.yaml
says own.yaml "decay_steps: auto" "num_samples: auto" "data: auto"
expect_exit 0 "$gptrain" --config own.yaml --set training.steps=14
says out "training.steps: 10 -> 14" "lr_schedule.decay_steps: 10 -> 14"
[[ ! -s err ]] || fail "a warning: $(cat err)"
rate() { sed -n "s/^{\"step\": $2, \"loss\".*\"lr\": \([^,]*\),.*/\1/p" "$1/metrics.jsonl"; }
[[ $(rate decay 10) == 0 && $(rate decay 13) != 0 ]] ||
    fail "rates: $(rate decay 10) at step 10, $(rate decay 13) at step 13"
train 0 ended training.steps=14 lr_schedule.decay_steps=10
says err "decay_steps 10 is below training.steps 14: the learning rate is 0 from step 10 on"
[[ $(rate ended 10) == 0 && $(rate ended 14) == 0 ]] || fail "the rate is not 0: $(rate ended 14)"

# Settings that must change them.
train 0 other_seed seed=7
differ "$(checkpoint plain 20)/shard-00000.h5" "$(checkpoint other_seed 20)/shard-00000.h5"

# What a start has checked on its node the next one does not check again, unless it has changed. The
# order that the first one makes is too new to be known.
export GPTRAIN_NODE_CACHE=$work/node
order=(data.num_samples=500000 checkpoint.interval=0)
kept() { ls -i node | grep -c "[0-9] found-"; }
train 0 kept "${order[@]}" training.steps=5
says out "start: " " s until the end of the first step"
grep -q '^{"event": "start", "step": 1, "seconds": {"launch": ' kept/metrics.jsonl ||
    fail "no line of the start: $(cut -c 1-60 kept/metrics.jsonl)"
[[ ! -e node ]] || fail "a new file is known: $(ls node)"
sleep 2.1
train 0 kept "${order[@]}" training.steps=6
(($(kept) == 1)) || fail "not one check is kept: $(ls node)"
ls -i node >before
train 0 kept "${order[@]}" training.steps=7
ls -i node >after
same before after
GPTRAIN_NODE_CACHE=off train 0 kept "${order[@]}" training.steps=8
[[ ! -s err ]] || fail "a warning: $(<err)"
# Damage to what is kept is named and costs nothing; damage to the order is found.
echo rubbish >"$(echo node/found-*)"
train 0 kept "${order[@]}" training.steps=9
says err "warning: $work/node/found-" ": is damaged, or not a file of gptrain; ignored"
ls -i node >after
differ before after
train 0 kept "${order[@]}" training.steps=10
[[ ! -s err ]] || fail "a warning: $(<err)"
file=$(echo kept/cache/*.index)
byte=$(od -An -tu1 -j1000000 -N1 "$file")
printf "\\x$(printf %x $((255 - byte)))" | dd of="$file" bs=1 seek=1000000 conv=notrunc status=none
sleep 2.1
train 0 kept "${order[@]}" training.steps=11
says err "is damaged (checksum); rebuilding it"
train 0 straight "${order[@]}" training.steps=11
same "$(checkpoint straight 11)/shard-00000.h5" "$(checkpoint kept 11)/shard-00000.h5"

finish
