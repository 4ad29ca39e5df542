#!/usr/bin/env bash
# Usage: experts_ranks.sh GPTRAIN GPT-PREPROCESS MPIRUN. A mixture of experts from its spec to a
# checkpoint that goes on exactly, on any mesh; text from it, copies of a dense model, and errors.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/rank_lib.sh"
make_data
make_spec
sed -i 's/^model: {\(.*\)}/model: {\1, activation: clamped_swiglu, bias: true, ffn_hidden_size: 24,/' run.yaml
sed -i '/^model:/a\    experts: {count: 4, per_token: 2, ffn_hidden_size: 24, bias: true, balance: {bias_rate: 0.01}}}' run.yaml
cat >>run.yaml <<END
precision: {compute: fp32}
faults: {replica_check_interval: 2}
END
few="training.global_batch_size=8 training.steps=6 checkpoint.interval=3 checkpoint.keep_last=4"

# With load 1 messages to experts are too short, and steps are computed again in slices.
named_meshes[expert]="parallel.data=2 parallel.expert=2 model.experts.load=1"
named_meshes[expert_tp]="${named_meshes[tp]} parallel.expert=2"
resumes_on_meshes one dp tp expert
says expert/metrics.jsonl '"expert_slices": 2, "repeats": ' '"experts": {"bytes": '
says_not dp/metrics.jsonl expert_slices
says "$(checkpoint one 6)/manifest.json" '"name":"h.1.experts.fc.weight"' \
    '"group":"weight","name":"h.0.router.balance"' '"group":"exp_avg","name":"h.1.experts.proj.bias"'
says_not "$(checkpoint one 6)/manifest.json" '"group":"exp_avg","name":"h.0.router.balance"'
says one/metrics.jsonl '"expert_load": {"0": {"largest": ' '"unused_experts": {"0": {"experts": ' \
    '"router_entropy": {"0": {"mean": ' '"router_loss": {"0": {"mean": '

# Another mesh continues from a checkpoint.
for meshes in "tp dp" "expert tp" "one expert_tp"; do
    read -r from to <<<"$meshes"
    cp -r "$from" "$from-$to"
    run_on "$to" "$from-$to" training.steps=9
    says out "/$from-$to/checkpoints/step-000006 after step 6"
done

# inspect counts active parameters; text is the same on one rank and on two.
expect_exit 0 "$gptrain" inspect run.yaml
says out "active"
write=(generate --checkpoint one --prompt "a" --max-tokens 8 --seed 4)
expect_exit 0 "$gptrain" "${write[@]}"
[[ -s out ]] || fail "no text"
cp out alone
timeout --signal=KILL 60 "$mpirun" -n 2 "$gptrain" "${write[@]}" --set parallel.tensor=2 >out 2>err
ran 0 $? "2 ranks, ${write[*]}"
same alone out

# Experts start as copies of a dense model's mlp, whose loss they have at first.
sed '/^    experts:/d; s/ffn_hidden_size: 24,$/ffn_hidden_size: 24}/' run.yaml >dense.yaml
cp run.yaml mixture.yaml
cp dense.yaml run.yaml
train 0 dense training.steps=10
cp mixture.yaml run.yaml
first_loss() { sed -n 's/^{"step": 1, "loss": \([^,]*\),.*/\1/p' "$1/metrics.jsonl"; }
begin_alike() {
    awk -v a="$(first_loss "$1")" -v b="$(first_loss "$2")" \
        'BEGIN { exit !(a > 0 && (a > b ? a - b : b - a) < 1e-5 * b) }' ||
        fail "$1 begins with $(first_loss "$1"), $2 with $(first_loss "$2")"
}
train 0 copies init_from=dense training.steps=1
says out "each expert starts as a copy of the mlp of its layer"
cp dense.yaml run.yaml
train 0 more init_from=dense training.steps=1
begin_alike copies more
cp mixture.yaml run.yaml
for mesh in one expert; do
    run_on $mesh copies-$mesh init_from=dense training.steps=1
done
begin_alike copies-one copies-expert
train 0 noisy init_from=dense training.steps=1 model.experts.upcycling_noise=0.1
[[ $(first_loss noisy) != "$(first_loss copies)" ]] || fail "noise changes nothing"
train 2 wide init_from=dense model.experts.ffn_hidden_size=32
says err "/dense: has no experts" "model.experts.ffn_hidden_size is 32, and has to be model.ffn_hidden_size, 24"
train 2 biases init_from=dense model.experts.bias=false
says err "/dense: has no experts" "model.experts.bias is false, and has to be model.bias, true"

# Errors name the key.
train 2 wrong parallel.expert=3
says err "model.experts.count 4 is not a multiple of 3, parallel.expert"
train 2 wrong model.experts.per_token=1
says err "model.experts"
train 2 wrong precision.compute=fp8
says err "model.experts"
expect_exit 2 "$gptrain" export one --format gguf --output one.gguf
says err "experts"
finish
