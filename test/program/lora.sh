#!/usr/bin/env bash
# LoRA: the adapter alone is trained, saved, resumed and exported; the adapted model stays.
. "$(dirname "$0")/lib.sh"
make_text 1 1000 >text.txt
expect_exit 0 "$preprocess" train-tokenizer --input text.txt --vocab-size 319 --model-prefix tok
expect_exit 0 "$preprocess" --input text.txt --tokenizer tok.json --output-prefix text --append-eod
make_text 1 2 >line.txt
for i in {1..200}; do cat line.txt; done >other.txt
expect_exit 0 "$preprocess" --input other.txt --tokenizer tok.json --output-prefix other --append-eod
make_spec
sed -i 's/tok.model/tok.json/' run.yaml
train 0 base training.steps=300 lr_schedule.decay_steps=300 optimizer.lr=0.03 data.num_samples=auto checkpoint.interval=0
expect_exit 0 "$gptrain" export base --format hf --output hf
train 0 rope training.steps=2 model.position_embedding=rope

lora='adapter={kind: lora, rank: 4, alpha: 8, dropout: 0.1, targets: [attn.q, attn.v, attn.proj, mlp.fc, mlp.proj]}'
adapt() { train "$1" "$2" init_from=hf seed=5 optimizer.lr=0.02 \
    'data.train=[{prefix: other_text_document}]' "$lora" "${@:3}"; }
tensors() { grep -o '{"group":"weight","name":"[^"]*"' "$1/manifest.json" | sed 's/.*:"//; s/"$//'; }

# Checkpoints hold the adapter alone, with its state.
adapt 0 tuned training.steps=200 lr_schedule.decay_steps=200 data.num_samples=auto checkpoint.interval=200
says out "of them frozen)" "weights of $work/hf"
last=$(checkpoint tuned 200)
[[ -n $(tensors "$last") && -z $(tensors "$last" | grep -v 'lora_[ab]$') ]] ||
    fail "tensors of the checkpoint: $(tensors "$last")"
(($(stat -c %s "$last"/shard-00000.h5) < $(stat -c %s "$(checkpoint base 300)"/shard-00000.h5) / 3)) ||
    fail "the checkpoint is not smaller than the model's"
expect_exit 0 "$gptrain" inspect "$last" --verify
# The loss on the new text falls far below the model's.
expect_exit 0 "$gptrain" eval --checkpoint hf --data other_text_document
before=$(sed -n 's/.*"loss":\([0-9.]*\).*/\1/p' out)
expect_exit 0 "$gptrain" eval --checkpoint tuned --data other_text_document
after=$(sed -n 's/.*"loss":\([0-9.]*\).*/\1/p' out)
awk -v b="$before" -v a="$after" 'BEGIN { exit !(a < b - 0.3) }' || fail "loss $before, then $after"

# Resumed equals uninterrupted, from either form of the model, and with its weights in bf16.
for compute in fp32 bf16; do
    adapt 0 straight-$compute precision.compute=$compute
    adapt 0 parts-$compute precision.compute=$compute training.steps=10
    adapt 0 parts-$compute precision.compute=$compute init_from=base
    same_run straight-$compute parts-$compute 20
done

# Without an adapter there is nothing to keep in int8.
train 2 none precision.frozen=int8
says err "error: --set precision.frozen: int8 is for the model of an adapter" \
    "set adapter or remove precision.frozen"

# The model in int8: the same, a little coarser.
adapt 0 int8 precision.frozen=int8 training.steps=200 lr_schedule.decay_steps=200 \
    data.num_samples=auto checkpoint.interval=100
adapt 0 int8-parts precision.frozen=int8 training.steps=100 lr_schedule.decay_steps=200 \
    data.num_samples=auto checkpoint.interval=100
adapt 0 int8-parts precision.frozen=int8 init_from=base training.steps=200 \
    lr_schedule.decay_steps=200 data.num_samples=auto checkpoint.interval=100
same_run int8 int8-parts 200
expect_exit 0 "$gptrain" eval --checkpoint int8 --data other_text_document
awk -v a="$after" -v b="$(sed -n 's/.*"loss":\([0-9.]*\).*/\1/p' out)" \
    'BEGIN { apart = a / b - 1; exit !(apart != 0 && apart < 0.05 && apart > -0.05) }' ||
    fail "loss $after, over int8: $(cat out)"
expect_exit 0 "$gptrain" generate --checkpoint int8 --prompt "and the" --max-tokens 5

# Merged, the dequantised model computes what the run computes: in int8, and in NF4.
loss_of() {
    expect_exit 0 "$gptrain" eval --checkpoint "$1" --data other_text_document
    sed -n 's/.*"loss":\([0-9.]*\).*/\1/p' out
}
adapt 0 nf4 precision.frozen=nf4 precision.nf4_double=true training.steps=60 data.num_samples=auto
for run in int8 nf4; do
    expect_exit 0 "$gptrain" export $run --format hf --merge --output merged-$run
    says out "read back: the logits"
done
# (int8 has another head in eval.)
awk -v a="$(loss_of nf4)" -v b="$(loss_of merged-nf4)" \
    'BEGIN { apart = a / b - 1; exit !(apart < 1e-6 && apart > -1e-6) }' ||
    fail "nf4: loss $(loss_of nf4), merged $(loss_of merged-nf4)"

# A folder that bitsandbytes has quantised is imported, trained on and merged.
bnb=$(dirname "$script")/../interop/models/llama_nf4_double
for i in {1..65}; do printf "\\x$(printf %02x $((i * i % 37 + 2)))\\0"; done >ids.bin
printf 'MMIDIDX\0\0\1\0\0\0\0\0\0\0\10\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0\101\0\0\0' >ids.idx
printf '\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0' >>ids.idx
expect_exit 0 "$gptrain" inspect "$bnb"
{
    sed -n '/^model:/,$p' out
    echo 'name: bnb
data: {train: [{prefix: ids}], split: "100,0,0", tokenizer: none}
training: {seq_length: 32, micro_batch_size: 1, steps: 30, eval_interval: 0}
optimizer: {lr: 0.02}
precision: {compute: fp32, frozen: nf4, nf4_double: true}
adapter: {kind: lora, rank: 2, alpha: 4, targets: [attn.q, attn.v, mlp.fc, mlp.proj]}
device: cpu'
} >bnb.yaml
expect_exit 0 "$gptrain" import "$bnb" --output imported-bnb
for from in "$bnb" imported-bnb; do
    expect_exit 0 "$gptrain" --config bnb.yaml --set init_from="$from" \
        --set output_dir="bnb-${from##*/}"
done
run=bnb-${bnb##*/}
expect_exit 0 "$gptrain" export "$run" --format hf --merge --output merged-bnb
says out "read back: the logits"
loss_of_ids() {
    expect_exit 0 "$gptrain" eval --checkpoint "$1" --data ids
    sed -n 's/.*"loss":\([0-9.]*\).*/\1/p' out
}
awk -v base="$(loss_of_ids imported-bnb)" -v a="$(loss_of_ids "$run")" \
    -v b="$(loss_of_ids merged-bnb)" -v c="$(loss_of_ids bnb-imported-bnb)" \
    'BEGIN { exit !(a < base - 0.3 && a / b - 1 < 1e-5 && b / a - 1 < 1e-5 && c < base - 0.3) }' ||
    fail "bitsandbytes: $(loss_of_ids imported-bnb), tuned $(loss_of_ids "$run"), merged $(loss_of_ids merged-bnb)"

# Merged equals unmerged.
expect_exit 0 "$gptrain" export tuned --format hf --merge --output merged
says out "read back: the logits"
expect_exit 0 "$gptrain" generate --checkpoint tuned --prompt "and the" --max-tokens 20 --temperature 0
cp out unmerged.txt
expect_exit 0 "$gptrain" generate --checkpoint merged --prompt "and the" --max-tokens 20 --temperature 0
same out unmerged.txt
expect_exit 0 "$gptrain" export tuned --format gguf --merge --output merged.gguf
# A merged model is one like any other.
train 0 again init_from=merged training.steps=10

# The adapter alone, for PEFT.
expect_exit 0 "$gptrain" export tuned --format hf --output peft
says out "exported the adapter"
[[ -f peft/adapter_config.json && -f peft/adapter_model.safetensors ]] || fail "no adapter: $(ls peft)"

# An adapter of PEFT answers, is measured and merged as the run that it came from, and trains on.
expect_exit 0 "$gptrain" generate --checkpoint peft --prompt "and the" --max-tokens 20 --temperature 0
same out unmerged.txt
says_not err "base model"
expect_exit 0 "$gptrain" eval --checkpoint peft --data other_text_document
says out "\"loss\":$after"
expect_exit 0 "$gptrain" export peft --format hf --merge --output merged-peft
same merged/model.safetensors merged-peft/model.safetensors
adapt 0 on init_from=peft training.steps=2 optimizer.lr=1.0e-12
says out "starting with the weights of $work/hf" "starting with the adapter of $work/peft"
expect_exit 0 "$gptrain" eval --checkpoint on --data other_text_document
awk -v a="$after" -v b="$(sed -n 's/.*"loss":\([0-9.]*\).*/\1/p' out)" \
    'BEGIN { apart = a / b - 1; exit !(apart < 1e-5 && apart > -1e-5) }' || fail "not $after: $(cat out)"
adapt 0 on init_from=peft training.steps=4 optimizer.lr=1.0e-12
says out "resumed from"
says_not out "starting with the adapter"
train 2 no init_from=peft
says err "init_from: $work/peft: is an adapter of PEFT; to train it on, give the run its section adapter"
for other in rank:4:8 alpha:8:9; do
    IFS=: read -r key there here <<<"$other"
    adapt 2 no init_from=peft "adapter.$key=$here"
    says err "init_from: $work/peft: adapter.$key is $there there, but $here in this run"
done
adapt 2 no init_from=peft 'adapter.targets=[attn.q]'
says err "adapter.targets is [attn.q, attn.v, attn.proj, mlp.fc, mlp.proj] there, but [attn.q] in this run"

# PEFT would compute with the model's own norms.
adapt 0 eps training.steps=2 model.norm_eps=0.01
expect_exit 2 "$gptrain" export eps --format hf --output no
says err "its model.norm_eps is 0.01, but that of the adapted model $work/hf is 1e-05" "with --merge"
expect_exit 0 "$gptrain" export eps --format hf --merge --output merged-eps
# It would also compute with the model's own windows.
adapt 0 window training.steps=2 model.position_embedding=rope init_from=rope model.sliding_window=8
says out 'init_from: model.sliding_window is "none" there and 8 in this run'
expect_exit 2 "$gptrain" export window --format hf --output no
says err 'its model.sliding_window is 8, but that of the adapted model' 'is "none"' "with --merge"

# Only its own model fits, wherever that is.
adapt 2 parts-fp32 init_from=merged training.steps=30
says err "the adapter was trained on other weights than those that init_from finds now"
adapt 2 parts-fp32 training.steps=30 'adapter.rank=8'
says err "adapter.rank is 4 in the checkpoint but 8"
train 2 parts-fp32 training.steps=30 seed=5 'data.train=[{prefix: other_text_document}]'
says err "adapter.alpha"
mv hf moved
expect_exit 2 "$gptrain" eval --checkpoint tuned --data other_text_document
says err "is an adapter of $work/hf, which is not there; give --adapted DIR"
expect_exit 0 "$gptrain" eval --checkpoint tuned --adapted moved --data other_text_document
says out "\"loss\":$after"
expect_exit 2 "$gptrain" eval --checkpoint peft --data other_text_document
says err "peft/adapter_config.json: its base model \"$work/hf\" is no folder here; give --adapted DIR"
expect_exit 0 "$gptrain" eval --checkpoint peft --adapted moved --data other_text_document
says out "\"loss\":$after"
says err "warning: peft: names \"$work/hf\" as its base model, but is used with moved"
expect_exit 2 "$gptrain" eval --checkpoint tuned --adapted merged --data other_text_document
says err "is an adapter of a model with the fingerprint"
expect_exit 2 "$gptrain" eval --checkpoint base --adapted moved --data other_text_document
says err "is not an adapter; remove it"

# Requests that make no sense.
expect_exit 2 "$gptrain" export base --format hf --merge --output no
says err "--merge" "is not an adapter; remove it"
expect_exit 2 "$gptrain" export tuned --adapted moved --format gguf --output no.gguf
says err "--format gguf" "is an adapter; add --merge"
train 2 no init_from=tuned
says err "is an adapter; merge it into its model with gptrain export --merge and give the result"
train 2 no "$lora"
says err "adapter needs init_from"
train 2 no init_from=base "$lora" 'training.frozen=[wte.weight]'
says err "training.frozen cannot be used with adapter"
train 2 no init_from=base 'adapter={kind: lora, targets: [mlp.gate]}'
says err "adapter.targets: the model has no mlp.gate"
train 2 no init_from=base 'adapter={kind: lora, targets: [attn.q, attn.q]}'
says err "adapter.targets lists attn.q twice"

finish
