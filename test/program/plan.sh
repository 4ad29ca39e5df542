#!/usr/bin/env bash
# gptrain plan: the figures that it finds are those of a dry run of the written spec.
. "$(dirname "$0")/lib.sh"
configs=$(dirname "$0")/../../configs

cat >small.yaml <<'YAML'
name: small
device: cuda
output_dir: runs/small
model: {num_layers: 8, hidden_size: 2048, num_attention_heads: 16, vocab_size: 32000}
data: {train: [{prefix: data/corpus}]}
training: {seq_length: 2048, global_batch_size: 32, steps: 1000}
YAML
sed 's/memory: 84.97e9 /memory: 12e9 /' "$configs/hardware/a100-80gb.yaml" >half.yaml
plan=("$gptrain" plan --config small.yaml --hardware half.yaml)
# seconds JSON: the seconds of the fastest settings, as the table shows them.
seconds() { grep -o '"best":\[{"step_seconds":[0-9.e-]*' "$1" | grep -o '[0-9.e-]*$'; }

# The best settings, written and given to a dry run.
expect_exit 0 "${plan[@]}" --world-size 8 --json plan.json --write best.yaml
says out "candidates for 8 x a100-80gb" "this spec's own settings: " "not among the best" \
    "the fastest within 50 % of the memory"
[[ $(grep -c '^ *[0-9]* .* % *$' out) == 10 ]] || fail "not ten rows: $(cat out)"
(($(awk '{ print length }' out | sort -n | tail -n 1) <= 140)) || fail "a line is too long"
row=$(awk '$1 == 1 { print $2 }' out)
expect_exit 0 "$gptrain" --config best.yaml --dry-run --world-size 8 --hardware half.yaml \
    --json dry.json
says out "fits: " "$row s"
[[ $(grep -o '"step_seconds":[0-9.e-]*' dry.json) == "\"step_seconds\":$(seconds plan.json)" ]] ||
    fail "the dry run of best.yaml does not take $(seconds plan.json) s: $(cat dry.json)"

# Fixed keys stay, settings that leave memory free fit in less, and a larger batch takes fewer
# steps.
expect_exit 0 "${plan[@]}" --world-size 8 --fix parallel.tensor=2 --fix parallel.pipeline=1,2 \
    --memory-headroom 5% --global-batch 32..64 --write fixed.yaml --max-days 0.001
says out "no settings train in 0.001 days" "global_batch_size 64" " GiB with global_batch_size 32" \
    "the time of the fastest per sequence"
expect_exit 0 "${plan[@]}" --world-size 8 --fix parallel.tensor=8 --fix parallel.data=auto \
    --fix training.micro_batch_size=1 --global-batch 64 --max-days 1 --set training.steps=1
says out "the fastest train in 1 days: the fastest take 9." " device-hours for 1 step,"
says_not out " 0 device-hours"
says_not out " 0.00 "
says fixed.yaml "tensor: 2" "steps: 500"

# A share of the memory stays free, 1 % by default: settings that need all but half a percent fit only
# without it, as in a dry run.
all=(--fix parallel.tensor=8 --fix parallel.pipeline=1 --fix parallel.sequence_parallel=true
    --fix parallel.overlap_tensor=off --fix training.micro_batch_size=1 --fix recompute=full
    --fix offload.optimizer=false)
expect_exit 0 "${plan[@]}" --world-size 8 "${all[@]}" --json all.json --write all.yaml
says out "1 candidates for 8"
needed=$(grep -o '"memory_bytes":[0-9]*' all.json | head -n 1 | cut -d : -f 2)
sed "s/memory: 12e9 /memory: $((needed + needed / 200)) /" half.yaml >tight.yaml
tight=("$gptrain" plan --config small.yaml --hardware tight.yaml --world-size 8 "${all[@]}")
expect_exit 2 "${tight[@]}"
says err "no settings of 8 ranks fit on a100-80gb: the smallest needs at least " " GiB less --memory-headroom)"
expect_exit 0 "${tight[@]}" --memory-headroom 0.4%
expect_exit 0 "${tight[@]}" --memory-headroom 0%
dry_run=("$gptrain" --config all.yaml --dry-run --world-size 8 --hardware tight.yaml)
expect_exit 0 "${dry_run[@]}"
says out "does not fit: "
expect_exit 0 "${dry_run[@]}" --memory-headroom 0.4%
says out "fits: "
expect_exit 2 "${tight[@]}" --memory-headroom 0% --set model.num_layers=512
says_not err "--memory-headroom"

# Settings that a rule refuses do not count as too large.
expect_exit 0 "${plan[@]}" --world-size 8 --fix 'parallel.layers=[3,5]' --fix recompute=full \
    --memory-headroom 0%
says out ": 0 too large" "  pipeline 1, 4, 8           parallel.layers has 2 entries"

# Equal values count once, and faster settings than the limits allow are not compared in parts.
expect_exit 0 "${plan[@]}" --world-size 8 --global-batch 32,32 --fix parallel.tensor=8,8 \
    --fix training.micro_batch_size=1 --fix recompute=full --set recompute=selective
says out "3 candidates for 8" "x the time of the fastest"
says_not out "in place of"

# A node without a network, as --calibrate writes it, with one rank and with more ranks than cores.
sed '/^  network:/,/^    latency:/d; s/^  devices: .*/  devices: 2/' \
    "$configs/hardware/cpu.yaml" >node.yaml
tiny=(--config small.yaml --set device=cpu --set model.hidden_size=256 --fix training.micro_batch_size=1)
expect_exit 0 "$gptrain" plan "${tiny[@]}" --hardware node.yaml --world-size 1
expect_exit 0 "$gptrain" plan "${tiny[@]}" --hardware node.yaml --world-size 4
says out "candidates for 4 x cpu" "the fastest: "

# Short times have significant digits.
settings device=cpu model.hidden_size=16 model.num_attention_heads=2 model.num_layers=2 \
    training.seq_length=16 training.global_batch_size=2
for command in plan "plan --inference --prompt 4 --tokens 4" --dry-run; do
    expect_exit 0 "$gptrain" $command --config small.yaml "${set[@]}" --hardware cpu --world-size 2
    says_not out " 0.000 "
done

# Messages that were not measured, as --calibrate with one rank leaves them.
sed 's/^    bandwidth: 4e9 .*/    bandwidth: 0/; s/^    latency: 2.0e-6 .*/    latency: 0/' \
    node.yaml >one.yaml
expect_exit 0 "$gptrain" plan "${tiny[@]}" --hardware one.yaml --world-size 1
for question in "" "--inference --prompt 8 --tokens 8 --batch 1"; do
    expect_exit 2 "$gptrain" plan --config small.yaml --set device=cpu --hardware one.yaml \
        --world-size 2 $question
    says err "node.link.bandwidth is 0" "calibrate with several ranks"
done
expect_exit 2 "$gptrain" --config small.yaml --set device=cpu --dry-run --hardware one.yaml \
    --world-size 2
says err "node.link.bandwidth is 0"
"$gptrain" plan --calibrate mine.yaml >out 2>err &
pid=$!
wait_for err "warning: --calibrate measures no messages with one rank"
kill -KILL "$pid"
wait "$pid" 2>/dev/null

# The number of ranks for a time.
expect_exit 0 "${plan[@]}" --world-size 16,4,8 --max-days 100
says out "  ranks   step s" "the fewest ranks for 100 days: 4"
[[ $(grep -c '^ *\(4\|8\|16\)  ' out) == 3 ]] || fail "not three rows: $(cat out)"

# One line that says what to do.
wrong() {
    expect_exit 2 "$gptrain" plan --config small.yaml --world-size 8 --hardware half.yaml "${@:2}"
    says err "$1"
}
wrong "did you mean parallel.tensor?" --fix parallel.tenser=2
wrong "use --set to change it" --fix optimizer.lr=1
wrong "error: --fix parallel.tensor: found two, must be an integer from 1" --fix parallel.tensor=two
wrong "parallel.tensor is limited twice" --fix parallel.tensor=2 --fix parallel.tensor=4
wrong "give KEY.PATH=VALUE" --fix parallel.tensor
wrong "FIRST..LAST" --global-batch 64..32
wrong "'nan' is not a number" --max-days nan
wrong "such as 5%" --memory-headroom 5
wrong "no settings of 8 ranks fit on a100-80gb: the smallest needs at least " --set model.num_layers=512
says out "why not" "  tensor 1" " GiB of 11.1 GiB"
wrong "no settings of 8 ranks are allowed: model.head_dim: model.hidden_size 16384" --set model.hidden_size=16384
wrong "no mesh of 8 ranks has the values that --fix leaves" --fix parallel.pipeline=3
expect_exit 0 "${plan[@]}" --world-size 6,8 --fix parallel.pipeline=4 \
    --fix training.micro_batch_size=1 --global-batch 32,64 --fix parallel.shard_optimizer=false
says out "      6  no mesh of 6 ranks has the values" ", global_batch_size " ", shard none"
wrong "no such folder" --write nowhere/best.yaml
# An existing spec, with its comments, is never overwritten.
cp small.yaml before
wrong "small.yaml: exists" --write small.yaml
says_not out "candidates"
same small.yaml before
wrong "training.global_batch_size is auto" --set training.global_batch_size=auto
expect_exit 2 "${plan[@]}" --world-size 8,16 --write x.yaml
says err "take one number of ranks"
expect_exit 2 "$gptrain" plan --config small.yaml --world-size 8 --hardware a10
says err "--hardware a10: no such file, and this program has profiles of GPUs a100-40gb, a100-80gb, b200, "
expect_exit 2 "$gptrain" plan --config small.yaml --world-size 8 --hardware cpu
says err "is of kind cpu, but the run spec has device: cuda"
expect_exit 2 "$gptrain" plan --config small.yaml --world-size 8
says err "plan: --hardware is required"

finish
