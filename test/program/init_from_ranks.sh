#!/usr/bin/env bash
# Usage: init_from_ranks.sh GPTRAIN GPT-PREPROCESS MPIRUN. A run that starts from weights computes
# on every mesh what one rank computes, and import and export refuse several ranks.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/rank_lib.sh"
make_data
make_spec
echo 'precision: {compute: fp32}' >>run.yaml
train 0 source
expect_exit 0 "$gptrain" export source --format hf --output hf

# start_on RANKS CODE OUTPUT-DIR KEY=VALUE...
start_on() {
    settings output_dir="$3" training.steps=3 training.global_batch_size=8 seed=7 "${@:4}"
    timeout --signal=KILL 120 "$mpirun" -n "$1" "$gptrain" --config run.yaml "${set[@]}" >out 2>err
    ran "$2" $? "$1 ranks, ${*:3}"
}
losses() { sed -n 's/^{"step": \([0-9]*\), "loss": \([^,]*\),.*/\1 \2/p' "$1/metrics.jsonl"; }

start_on 1 0 one init_from=source
(($(losses one | wc -l) == 3)) || fail "no three losses: $(losses one)"
for from in source hf; do
    for mesh in data=2 tensor=2 pipeline=2; do
        name=$from-$mesh
        start_on 2 0 "$name" init_from=$from parallel.$mesh
        says out "starting with the weights of"
        paste <(losses one) <(losses "$name") | awk '
            { apart = $2 > $4 ? $2 - $4 : $4 - $2
              if (NF != 4 || $1 != $3 || apart > 2e-5 * $2) exit 1 }' ||
            fail "$name: $(paste <(losses one) <(losses "$name"))"
    done
done
# An export of a checkpoint of several ranks has the weights of one rank's. Steps this small change
# no weight.
start_on 4 0 several init_from=source parallel.tensor=2 parallel.data=2 optimizer.lr=1.0e-30
expect_exit 0 "$gptrain" export several --format hf --output hf-several
same hf/model.safetensors hf-several/model.safetensors
same hf/config.json hf-several/config.json

start_on 2 2 refused init_from=hf parallel.data=2 model.num_layers=3
says err "model.num_layers is 2 there, but 3 in this run"

for command in "import hf --output x" "export source --format hf --output x"; do
    timeout --signal=KILL 60 "$mpirun" -n 2 "$gptrain" $command >out 2>err
    ran 2 $? "$command on two ranks"
    says err "runs on one rank, not 2"
done
[[ ! -e x ]] || fail "a refused command has written"

finish
