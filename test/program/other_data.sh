#!/usr/bin/env bash
# A resumed run continues with other data (data.on_change: continue).
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/rank_lib.sh"

# bytes WIDTH NUMBER...: little-endian integers.
bytes() {
    local width=$1 number byte octal
    shift
    for number; do
        for ((byte = 0; byte < width; ++byte)); do
            printf -v octal '\\0%03o' $((number >> 8 * byte & 255))
            printf '%b' "$octal"
        done
    done
}
# tokens PREFIX FIRST DOCUMENTS: token files of documents of 5 tokens, in which no token occurs twice.
tokens() {
    bytes 2 $(seq "$2" $(($2 + 5 * $3 - 1))) >"$1.bin"
    {
        printf 'MMIDIDX\0\0'
        bytes 8 1
        bytes 1 8
        bytes 8 "$3" $(($3 + 1))
        bytes 4 $(seq "$3" | sed 's/.*/5/')
        bytes 8 $(seq 0 10 $((10 * $3 - 1)))
        bytes 8 $(seq 0 "$3")
    } >"$1.idx"
}
tokens a 0 100
tokens b 500 60
tokens c 800 80
a='{prefix: a}' b='{prefix: b}' c='{prefix: c, weight: 3}'

cat >run.yaml <<END
name: tiny
output_dir: run
model: {num_layers: 1, hidden_size: 16, num_attention_heads: 2, vocab_size: 1200, tie_embeddings: false}
data: {train: [$a, $b], split: "100", on_change: continue}
training: {seq_length: 8, micro_batch_size: 1, global_batch_size: 2, steps: 10, eval_interval: 0}
optimizer: {lr: 0.01}
lr_schedule: {kind: constant}
checkpoint: {interval: 5, keep_last: 9}
logging: {interval: 1}
device: ${GPTRAIN_TEST_DEVICE:-cpu}
END

# read_tokens OUTPUT-DIR STEP: how many tokens of a, b and c the run has read so far, by the rows of
# the embedding that ever had a gradient. If each was read once, they are 8 for every sample.
read_tokens() {
    h5dump -d /exp_avg/wte.weight -y -w 0 "$(checkpoint "$1" "$2")/model.h5" |
        awk '/DATA \{/ { inside = 1; next } /\}/ { inside = 0 }
            inside {
                gsub(/,/, "")
                for (i = 1; i <= NF; ++i) if ($i + 0 != 0) read[int((number + i - 1) / 16)] = 1
                number += NF
            }
            END {
                for (token in read) ++count[token + 0 < 500 ? 1 : token + 0 < 800 ? 2 : 3]
                print count[1] + 0, count[2] + 0, count[3] + 0
            }'
}
reads() {
    local got
    got=$(read_tokens "$1" "$2")
    [[ $got == "$3" ]] || fail "$1 read $got tokens of a, b, c until step $2 instead of $3"
}

train 0 base
reads base 10 "80 80 0"
cp -r base kept

# Without the key it is refused, and the message names it.
train 2 base "data.train=[$a, $c]" training.steps=20 data.on_change=refuse
says err "data.train.1 has other tokens: 300 tokens of \"$work/b\" in the checkpoint, 400 tokens of \"$work/c\"" \
    "data.on_change: continue"
train 2 base "data.train=[$a]" training.steps=20 data.on_change=refuse
says err "data.train.1 has other tokens: 300 tokens of \"$work/b\" in the checkpoint, absent in the run spec"
train 2 base "data.train=[$a, $c]" training.steps=20 data.validation="[$b]"
says err "data.validation" "it decides which part of each source is for training" \
    "not even with data.on_change: continue; change it back" "with init_from from these weights"
train 2 base "data.train=[$a, $c]" training.steps=20 'data.split="90,10,0"'
says err 'data.split is "100" in the checkpoint' "not even with data.on_change: continue"

# The next 20 samples: 5 of a, 15 of c, none of them twice.
train 0 base "data.train=[$a, $c]" training.steps=20
says out "data: from sample 20 on $work/a after its 10 samples of pass 1, $work/c from its start" \
    "resumed from $work/base/checkpoints/step-000010"
says base/metrics.jsonl '{"event": "data", "step": 10, "consumed_samples": 20}'
reads base 20 "120 80 120"

# In parts, the same bits: the checkpoint's record of the change is enough, without the old data.
mkdir away
mv b.* away
for steps in 13 15 20; do train 0 kept "data.train=[$a, $c]" training.steps=$steps; done
says_not out "data: from sample"
[[ ! -s err ]] || fail "a warning: $(cat err)"
same_run base kept 20
[[ $(grep -c '"event": "data"' kept/metrics.jsonl) == 1 ]] || fail "not one data event"
# With the spec that the run wrote, too.
cp kept/spec.yaml own.yaml
says own.yaml "on_change: continue"
expect_exit 0 "$gptrain" --config own.yaml
says out "nothing left to do"
mv away/* .

# A second change: b comes back and continues, and so does a.
cp -r base second
train 0 base "data.train=[$b, $a]" training.steps=30
says out "data: from sample 40 on $work/b after its 10 samples of pass 1, $work/a after its 15 samples"
reads base 30 "200 160 120"
for steps in 24 30; do train 0 second "data.train=[$b, $a]" training.steps=$steps; done
same_run base second 30

# A single source with another weight reads what it would have read anyway, also after its last
# sample, the 62nd; and two of equal weights.
train 0 straight "data.train=[$a]" training.steps=40
says out "pass 2 over the training samples starts at sample 62"
train 0 weighed "data.train=[$a]"
train 0 weighed "data.train=[{prefix: a, weight: 2}]" training.steps=40
says out "data: pass 2 over $work/a starts"
same_run straight weighed 40
train 0 pair training.steps=20
train 0 pair-weighed
train 0 pair-weighed "data.train=[{prefix: a, weight: 2}, {prefix: b, weight: 2}]" training.steps=20
same_run pair pair-weighed 20

# A ramp-up continues, and other ranks may read the new data.
ramp=(training.global_batch_size=4 "training.rampup={start: 2, increment: 2, samples: 60}")
train 0 ramp "${ramp[@]}"
train_ranks 0 2 ramp "${ramp[@]}" "data.train=[$a, $c]" training.steps=20
says out "mesh: dp 2" "data: from sample 20 on"
samples=$(sed -n 's/^{"step": 20, .*"consumed_samples": \([0-9]*\).*/\1/p' ramp/metrics.jsonl)
read -r of_a of_b of_c < <(read_tokens ramp 20)
((of_b == 80 && of_a + of_b + of_c == 8 * samples)) ||
    fail "ramp: $of_a $of_b $of_c tokens of $samples samples"
# On two ranks the change is as exact.
for run in two two-parts; do train_ranks 0 2 $run; done
train_ranks 0 2 two "data.train=[$a, $c]" training.steps=20
for steps in 14 20; do train_ranks 0 2 two-parts "data.train=[$a, $c]" training.steps=$steps; done
reads two 20 "120 80 120"
same_shards two two-parts 20

# A rollback to the checkpoint from before the change keeps the new data.
train 0 spike
train 4 spike "data.train=[$a, $c]" training.steps=60 checkpoint.interval=0 \
    "faults.loss_spike={factor: 1.0, window: 1, action: rollback}" faults.max_skipped_steps=2
says out "data: from sample 20 on" "to $work/spike/checkpoints/step-000010; skipping samples"
says err "after 2 rollbacks to the newest checkpoint"

# Longer samples: the unread text is cut again. b has 27 of its 37 samples left.
rope=model.position_embedding=rope
longer=($rope training.seq_length=16 training.steps=20)
train 0 long $rope
cp -r long long-parts
train 2 long "${longer[@]}" data.on_change=refuse
says err "training.seq_length is 8" "data.on_change: continue"
train 0 long "${longer[@]}"
says out "data: from sample 20 on $work/a after its 10 samples of 8 tokens of pass 1, $work/b after" \
    "run: 20 steps, 480 tokens"
says long/metrics.jsonl '"consumed_samples": 20, "consumed_tokens": 160' \
    '"consumed_samples": 40, "consumed_tokens": 480'
reads long 20 "240 240 0"
for steps in 13 20; do train 0 long-parts "${longer[@]}" training.steps=$steps; done
same_run long long-parts 20
# Shorter ones, on two ranks.
train_ranks 0 2 long $rope training.seq_length=4 training.steps=30
for steps in 24 30; do
    train_ranks 0 2 long-parts $rope training.seq_length=4 training.steps=$steps
done
reads long 30 "280 280 0"
same_shards long long-parts 30
# Learned positions have a row for each, which stays as it is.
train 2 pair training.seq_length=16
says err "set model.max_position_embeddings: 8, which allows any training.seq_length up to it"

# Faults. The checkpoint's record of the change is damaged, or lacks something.
for edit in 's/"given":10/"given":-1/' 's/"pass":0,//' 's/"first_sample":20/"first_sample":41/'; do
    rm -rf bad
    mkdir -p bad/checkpoints
    cp -r "$(checkpoint kept 20)" bad/checkpoints
    edit_manifest "$(checkpoint bad 20)" "$edit"
    train 3 bad "data.train=[$a, $c]" training.steps=25
    says err "checkpoint of step 20: identity.data.phase"
done
for edit in 's/"given":10/"given":-1/' 's/"given":10/"given":999/' 's/"seq_length":8/"seq_length":0/'; do
    rm -rf bad
    mkdir -p bad/checkpoints
    cp -r "$(checkpoint long 20)" bad/checkpoints
    edit_manifest "$(checkpoint bad 20)" "$edit"
    train 3 bad "${longer[@]}" training.steps=25
    says err identity.data.phase
done
# The checkpoint after which the data was to change is damaged: an older one stands elsewhere.
cp -r ramp torn
rm -rf torn/checkpoints/step-00001[1-9] torn/checkpoints/step-000020
printf XXXX | dd of="$(checkpoint torn 10)/shard-00000.h5" bs=1 seek=5000 conv=notrunc status=none
train 2 torn "${ramp[@]}" "data.train=[$a, $c]" training.steps=20
says err "step-000005: has read 10 samples" "--resume $work/torn/checkpoints/step-000005"
options=(--resume torn/checkpoints/step-000005)
train 0 torn "${ramp[@]}" "data.train=[$a, $c]" training.steps=12
options=()
says out "data: from sample 10 on"

finish
