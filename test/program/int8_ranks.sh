#!/usr/bin/env bash
# Usage: int8_ranks.sh GPTRAIN GPT-PREPROCESS MPIRUN. A model in int8 or nf4 on several ranks: every
# mesh adapts it as one rank does, and writes the same text.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/rank_lib.sh"
make_data
make_spec
# A rank of tp has whole blocks of 64 inputs, so that it rounds as one rank does. Every token uses all
# experts of the second layer, so that no rounding chooses.
sed -i 's/hidden_size: [0-9]*/hidden_size: 128/; s/num_attention_heads: 2/num_attention_heads: 2, max_position_embeddings: 64/' run.yaml
sed -i '0,/num_attention_heads: 2,/s//&\n    experts: {count: 2, per_token: 2, ffn_hidden_size: 128, bias: true, layers: [1]},/' run.yaml
named_meshes[expert]="${named_meshes[dp]} parallel.expert=2"
for mesh in expert cp dp_tp; do named_meshes[$mesh]+=" parallel.shard=gradients"; done
train 0 base
few="init_from=base training.global_batch_size=8 training.steps=6 checkpoint.interval=3
    precision.compute=fp32 precision.frozen=int8"
lora='adapter={kind: lora, rank: 4, targets: [attn.q, attn.proj, mlp.fc, mlp.proj]}'
losses() { sed -n 's/^{"step": \([1-6]\), "loss": \([^,]*\),.*/\1 \2/p' "$1/metrics.jsonl"; }

# near A B: their losses are equal, but for rounding.
near() {
    (($(losses "$1" | wc -l) == 6)) || fail "$1: $(losses "$1")"
    paste <(losses "$1") <(losses "$2") | awk '
        { apart = $2 > $4 ? $2 - $4 : $4 - $2
          if (NF != 4 || $1 != $3 || apart > 1e-5 * $2) exit 1 }' ||
        fail "$1 and $2: $(paste <(losses "$1") <(losses "$2"))"
}

for mesh in one expert tp pp cp dp_tp; do
    run_on $mesh $mesh "$lora"
    near $mesh one
    # The second half, from what one rank saved.
    run_on one half-$mesh "$lora" training.steps=3 lr_schedule.decay_steps=20
    run_on $mesh half-$mesh "$lora" lr_schedule.decay_steps=20
    near half-$mesh one
done

# In NF4 a rank finds its blocks' nested scales in the whole matrix.
nf4="precision.frozen=nf4 precision.nf4_double=true"
for mesh in one expert tp; do
    run_on $mesh nf4-$mesh "$lora" $nf4
    near nf4-$mesh nf4-one
done

# On the same mesh, resumed equals uninterrupted.
for mesh in expert tp; do
    run_on $mesh $mesh-parts "$lora" training.steps=3 lr_schedule.decay_steps=20
    run_on $mesh $mesh-parts "$lora" lr_schedule.decay_steps=20
    same_shards $mesh $mesh-parts 6
done

# The adapted model was saved by several ranks.
from_ranks=(init_from=base-dp lr_schedule.decay_steps=20)
run_on dp base-dp init_from=none precision.frozen=compute training.steps=2
run_on one lora-one "$lora" "${from_ranks[@]}"
for mesh in dp cp; do
    run_on $mesh lora-$mesh "$lora" "${from_ranks[@]}"
    near lora-$mesh lora-one
done

expect_exit 0 "$gptrain" generate --checkpoint one --prompt "and the" --max-tokens 12 --temperature 0
mv out alone.txt
for key in tensor pipeline; do
    timeout --signal=KILL 60 "$mpirun" -n 2 "$gptrain" generate --checkpoint one \
        --prompt "and the" --max-tokens 12 --temperature 0 --set parallel.$key=2 >out 2>err
    ran 0 $? "generate with parallel.$key=2"
    same out alone.txt
done
expect_exit 0 "$gptrain" generate --checkpoint nf4-tp --prompt "and the" --max-tokens 12 --temperature 0
mv out alone.txt
timeout --signal=KILL 60 "$mpirun" -n 2 "$gptrain" generate --checkpoint nf4-one \
    --prompt "and the" --max-tokens 12 --temperature 0 --set parallel.tensor=2 >out 2>err
ran 0 $? "generate in nf4 with parallel.tensor=2"
same out alone.txt

finish
