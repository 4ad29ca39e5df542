#!/usr/bin/env bash
# Usage: prompt_ranks.sh GPTRAIN GPT-PREPROCESS MPIRUN. Virtual tokens on several ranks: every mesh
# trains, resumes and measures them as one rank does, and continues from what another one saved.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/rank_lib.sh"
make_data
make_spec
sed -i 's/num_attention_heads: 2/num_attention_heads: 2, max_position_embeddings: 64/' run.yaml
train 0 base training.seq_length=16
few="init_from=base training.seq_length=24 training.global_batch_size=8 training.steps=6
    checkpoint.interval=3 checkpoint.keep_last=4 precision.compute=fp32"
prompt='adapter={kind: prompt, virtual_tokens: 3, init: vocabulary}'
tuning='adapter={kind: p_tuning, virtual_tokens: 5, encoder_hidden_size: 12}'

named_meshes[pp]+=" parallel.schedule=zero_bubble"
losses() { sed -n 's/^{"step": \([1-6]\), "loss": \([^,]*\),.*/\1 \2/p' "$1/metrics.jsonl"; }

# near A B: the losses are equal, but for rounding.
near() {
    (($(losses "$1" | wc -l) == 6)) || fail "$1: $(losses "$1")"
    paste <(losses "$1") <(losses "$2") | awk '
        { apart = $2 > $4 ? $2 - $4 : $4 - $2
          if (NF != 4 || $1 != $3 || apart > 1e-4 * $2) exit 1 }' ||
        fail "$1 and $2: $(paste <(losses "$1") <(losses "$2"))"
}

for kind in prompt tuning; do
    last=one
    for mesh in one dp tp pp cp dp_tp; do
        run_on $mesh $kind-$mesh "${!kind}"
        near $kind-$mesh $kind-one
        # The second half, from what the last mesh saved.
        run_on $last $kind-moved-$mesh "${!kind}" training.steps=3 lr_schedule.decay_steps=20
        run_on $mesh $kind-moved-$mesh "${!kind}"
        near $kind-moved-$mesh $kind-one
        last=$mesh
    done
done

make_text 7 30 >unseen.txt
result() { sed -n 's/.*"loss":\([0-9.]*\),.*"tokens":\([0-9]*\).*/\1 \2/p' out; }
# as_ranks COMMAND...: on two ranks.
as_ranks() {
    timeout --signal=KILL 60 "$mpirun" -n 2 "$gptrain" "$@" >out 2>err
    ran 0 $? "$*"
}
for kind in prompt tuning; do
    from=(--checkpoint $kind-one)
    expect_exit 0 "$gptrain" eval "${from[@]}" --data unseen.txt
    alone=$(result)
    expect_exit 0 "$gptrain" generate "${from[@]}" --prompt "and the" --max-tokens 12 --temperature 0
    mv out alone.txt
    for key in tensor pipeline; do
        as_ranks eval "${from[@]}" --data unseen.txt --set parallel.$key=2
        echo "$alone $(result)" | awk '{ apart = $1 - $3; exit !(NF == 4 && $2 == $4 && apart^2 < 1e-10) }' ||
            fail "loss and tokens: $alone alone, $(result) with parallel.$key 2"
        as_ranks generate "${from[@]}" --prompt "and the" --max-tokens 12 --temperature 0 --set parallel.$key=2
        same out alone.txt
    done
done

finish
