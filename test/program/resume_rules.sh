#!/usr/bin/env bash
# The changes that a resumed run may make and may not, and where --resume finds its checkpoint.
. "$(dirname "$0")/lib.sh"
make_data
make_spec
make_text 2 400 >more.txt
expect_exit 0 "$preprocess" --input more.txt --tokenizer tok.model --output-prefix more --append-eod
expect_exit 0 "$preprocess" train-tokenizer --type unigram --input more.txt --vocab-size 310 --model-prefix other

sed -i 's/^model: {/&max_position_embeddings: 16, /
    s/{prefix: text_text_document}/&, {prefix: more_text_document}/' run.yaml
train 0 base training.steps=10
cp base/metrics.jsonl metrics.before
cp base/spec.yaml spec.before
# An output directory that was moved or copied: its spec names the old place.
cp -r base moved
expect_exit 2 "$gptrain" --config moved/spec.yaml
says err "moved/spec.yaml: output_dir is $work/base" "add --set output_dir=moved"
expect_exit 0 "$gptrain" --config moved/spec.yaml --set output_dir=moved
says out "nothing left to do"
ln -s base same
expect_exit 0 "$gptrain" --config same/spec.yaml
# Its checkpoints are gone: it starts from scratch, but not silently.
rm -r moved/checkpoints
train 0 moved training.steps=10
says err "moved/checkpoints: has no checkpoint, but the run has logged steps; starting from scratch"
rm -r moved same

# refused KEY=VALUE WORDS...: exit code 2, both values are named, and nothing has changed.
refused() {
    train 2 base "$1"
    says err "${@:2}"
    same base/metrics.jsonl metrics.before
    same base/spec.yaml spec.before
}
refused model.num_layers=3 num_layers 2 3
refused model.hidden_size=32 16 32
refused model.num_attention_heads=4 num_ 2 4
refused model.num_query_groups=1 num_query_groups 2 1
refused model.ffn_hidden_size=48 ffn_hidden_size 64 48
refused model.vocab_size=330 vocab_size 320 330
refused model.max_position_embeddings=32 max_position_embeddings 16 32
refused model.position_embedding=rope position_embedding learned rope
refused model.rope_theta=500.0 rope_theta 10000 500
refused model.normalization=rmsnorm normalization layernorm rmsnorm
refused model.norm_eps=1.0e-6 norm_eps 1e-05 1e-06
refused model.activation=swiglu activation gelu swiglu
refused model.bias=false bias true false
refused model.qk_norm=all qk_norm absent all
refused model.norm_placement=after norm_placement absent after
refused model.parallel_residual=one_norm parallel_residual absent one_norm
refused model.embedding_scale=2 embedding_scale absent 2.0
refused model.logit_softcap=30 logit_softcap absent 30.0
refused model.tie_embeddings=false tie_embeddings true false
refused model.init_std=0.03 init_std 0.02 0.03
refused seed=7 seed 1234 7
refused training.seq_length=8 seq_length 16 8
refused data.num_samples=61 num_samples 60 61
refused 'data.split="70,30,0"' split 80,20,0 70,30,0
refused data.tokenizer=other.model tokenizer
refused data.tokenizer=none tokenizer
train='prefix: text_text_document'
more='prefix: more_text_document'
refused "data.train=[{$train}]" data.train
refused "data.train=[{$more}, {$train}]" data.train
refused "data.train=[{$train, weight: 2.0}, {$more}]" weight 1 2
refused "data.validation=[{$more}]" data.validation
# The same name, other contents: the message has the file and the tokens then and now, not checksums.
grouped() { sed ':a; s/\([0-9]\)\([0-9]\{3\}\)\($\|,\)/\1,\2\3/; ta' <<<"$1"; }
tokens_of() { grouped $(($(wc -c <"$1.bin") / 2)); }
then="$(tokens_of more_text_document) tokens of \"$work/more_text_document\""
for suffix in bin idx meta.json; do
    mv more_text_document.$suffix kept.$suffix
    cp text_text_document.$suffix more_text_document.$suffix
done
now="$(tokens_of more_text_document) tokens of \"$work/more_text_document\""
refused seed=1234 "data.train.1 has other tokens: $then in the checkpoint, $now in the run spec; change"
says_not err fingerprint
# A checkpoint of a program that did not record them yet still resumes, but only with its own data.
cp -r base older
edit_manifest "$(checkpoint older 10)" 's/,"path":"[^"]*","tokens":[0-9]*//g'
says_not "$(checkpoint older 10)/manifest.json" '"tokens":'
train 2 older
says err "data.train.1 has other tokens: unknown (saved by an older program) in the checkpoint, $now in"
for suffix in bin idx meta.json; do mv kept.$suffix more_text_document.$suffix; done
train 0 older training.steps=12
says out "after step 10"

# Properties of a variant of the model that no tensor's shape shows.
variant=(model.position_embedding=rope model.sliding_window=8 'model.full_attention_layers=[0]'
    'model.rope_scaling={kind: yarn, factor: 4, original_max_position_embeddings: 8}')
train 0 variant "${variant[@]}" training.steps=2
for change in sliding_window=9 'full_attention_layers=[1]' rope_scaling.factor=2 \
    rope_scaling.original_max_position_embeddings=4 rope_scaling.beta_fast=16 \
    rope_scaling.beta_slow=2 rope_scaling.attention_factor=1.5; do
    train 2 variant "${variant[@]}" "model.$change"
    says err "cannot resume: model.${change%%=*}"
done
train 2 variant model.position_embedding=rope
says err "cannot resume: model." "absent in the run spec"

# Everything else may change, and is reported.
train 0 base name=other training.steps=12 training.micro_batch_size=2 training.global_batch_size=4 \
    model.dropout=0.1 optimizer.lr=0.02 lr_schedule.kind=linear precision.compute=bf16 recompute=full \
    data.num_samples=auto checkpoint.keep_last=2
says out "after step 10" "name: tiny -> other" "training.steps: 10 -> 12" \
    "training.micro_batch_size: 1 -> 2" "training.global_batch_size: 2 -> 4" \
    "model.dropout: 0 -> 0.1" "optimizer.lr: 0.01 -> 0.02" "lr_schedule.kind: cosine -> linear" \
    "precision.compute: fp32 -> bf16" "recompute: selective -> full" "step 12/12"
says_not out "num_samples:"
says base/spec.yaml "num_samples: auto" "name: other"
says "$(checkpoint base 12)/manifest.json" '"num_samples":60'
# Data may move.
mkdir moved
mv {text,more}_text_document.* moved
train 0 base "data.train=[{prefix: moved/text_text_document}, {prefix: moved/more_text_document}]"
says out "after step 12" "finished after step 20"
mv moved/* .

# A finished run.
train 0 base
says out "nothing left to do: the checkpoint has the run's last step, 20; a larger training.steps trains on"
train 0 base optimizer.lr=0.03
says out "the run's last step, 20, so the new optimizer.lr has no effect; a larger training.steps trains on"
train 0 base optimizer.lr=0.03 lr_schedule.kind=linear logging.interval=5
says out ", 20, so the new lr_schedule.kind, optimizer.lr have no effect; a larger training.steps trains on"
train 0 base training.steps=15
says out "nothing left to do: the checkpoint is of step 20, after training.steps 15; --resume DIR"
history base >base.history
(($(grep -c loss base.history) == 20)) || fail "a finished run has other lines: $(cat base.history)"

# The recipe of FP8 is the checkpoint's, unless the spec names another.
in_fp8() { train 0 "$1" model.hidden_size=128 model.num_layers=3 model.ffn_hidden_size=128 \
    precision.compute=fp8 lr_schedule.decay_steps=10 "${@:2}"; }
in_fp8 blocks training.steps=4 precision.fp8_recipe=block precision.fp8_weight_gradients=fp8
in_fp8 kept_blocks training.steps=2 precision.fp8_recipe=block precision.fp8_weight_gradients=fp8
options=(--dry-run)
in_fp8 kept_blocks training.steps=4
options=()
says out "precision.fp8_recipe: block (auto): as in the checkpoint"
in_fp8 kept_blocks training.steps=4
says out "precision.fp8_recipe: block (auto): as in the checkpoint" \
    "precision.fp8_weight_gradients: fp8 (auto): as in the checkpoint"
says_not out "changed since the checkpoint: precision.fp8"
same_run blocks kept_blocks 4
in_fp8 kept_blocks training.steps=5 precision.fp8_recipe=tensor
says out "changed since the checkpoint: precision.fp8_recipe: block -> tensor"
options=(--dry-run)
in_fp8 kept_blocks training.steps=6 precision.fp8_recipe=block
options=()
says out "with scales for blocks and weight gradients in bf16"

# --resume.
resume() {
    options=(--resume "$2")
    train "$1" "${@:3}"
    options=()
}
resume 2 never base
says err "base/checkpoints" "never"
resume 0 never fresh training.steps=3
resume 2 never fresh training.steps=3
resume 2 nowhere other
says err nowhere
mkdir empty empty-run empty-run/checkpoints
resume 2 empty other
says err empty
resume 2 empty-run other
says err empty-run
resume 2 base other seed=7
says err seed 1234 7
resume 0 base/ other training.steps=22
says out "after step 20"

finish
