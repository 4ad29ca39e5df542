#!/usr/bin/env bash
# Usage: mesh_changes.sh GPTRAIN GPT-PREPROCESS MPIRUN. Whatever a run trains, each mesh continues
# from what any other one saved: runs that change their mesh every two steps have the losses of one
# rank.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/rank_lib.sh"
export OMP_NUM_THREADS=1
make_data
make_spec
# With int8, a rank of tp has whole blocks of 64 inputs, so that it rounds as one rank does.
sed -i 's/num_layers: 2, hidden_size: 16,/num_layers: 4, hidden_size: 128, max_position_embeddings: 64,/' run.yaml
train_ranks 0 3 base parallel.data=3 training.global_batch_size=8 training.steps=2
few="training.seq_length=24 training.global_batch_size=8 checkpoint.interval=0 precision.compute=fp32 optimizer.eps=1.0e-6"

named_meshes[uneven]="parallel.data=3"
named_meshes[pp]+=" parallel.schedule=zero_bubble"
named_meshes[turns]="parallel.pipeline=2 parallel.virtual_stages=2 parallel.schedule=interleaved_1f1b"

# A row names a part and the meshes of its run. Over all rows each mesh follows every other exactly
# once (a Williams design).
runs=(
    "all    one    dp     dp_tp  uneven cp     tp     turns  pp"
    "from   dp     uneven one    tp     dp_tp  pp     cp     turns"
    "frozen uneven tp     dp     pp     one    turns  dp_tp  cp"
    "muon   tp     pp     uneven turns  dp     cp     one    dp_tp"
    "lora   pp     turns  tp     cp     uneven dp_tp  dp     one"
    "int8   turns  cp     pp     dp_tp  tp     one    uneven dp"
    "prompt cp     dp_tp  turns  one    pp     dp     tp     uneven"
    "tuning dp_tp  one    cp     dp     turns  uneven pp     tp"
)
# The values of recompute and shard in each column: each part and each mesh has all of them, and each
# part goes from a sharded optimizer to a sharded one, as runs do by default.
recomputes=(none selective full selective full none selective none)
sharded=(optimizer none weights optimizer optimizer gradients none weights)

# train_part PART: sets `part` to the settings of what it trains. Two are models without biases, whose
# ranks of tp share one head of keys and values.
train_part() {
    local llama=(model.hidden_size=16 model.num_query_groups=1 model.position_embedding=rope
        model.normalization=rmsnorm model.activation=swiglu model.bias=false model.qk_norm=true
        model.tie_embeddings=false)
    case $1 in
    all) part=("${llama[@]}") ;;
    from) part=(init_from=base) ;;
    frozen) part=(model.hidden_size=16 'training.frozen=[wte.weight, "h.0.*", "h.*.mlp.*", ln_f.weight]') ;;
    muon) part=("${llama[@]}" optimizer.name=muon 'training.frozen=["h.1.*", wte.weight]') ;;
    lora) part=(init_from=base 'adapter={kind: lora, rank: 4, targets: [attn.q, attn.proj, mlp.fc, mlp.proj]}') ;;
    int8) part=(init_from=base precision.frozen=int8 'adapter={kind: lora, rank: 4}') ;;
    prompt) part=(init_from=base 'adapter={kind: prompt, virtual_tokens: 3, init: vocabulary}') ;;
    tuning) part=(init_from=base 'adapter={kind: p_tuning, virtual_tokens: 5, encoder_hidden_size: 12}') ;;
    esac
}

losses() { sed -n 's/^{"step": \([0-9]*\), "loss": \([^,]*\),.*/\1 \2/p' "$1/metrics.jsonl"; }

# go_through PART MESH...
go_through() {
    local kind=$1 run=$1-meshes column steps shard
    local -a part meshes=("${@:2}")
    train_part "$kind"
    train 0 $kind-one $few training.steps=16 "${part[@]}"
    for column in "${!meshes[@]}"; do
        steps=$((2 * column + 2))
        shard=${sharded[column]}
        [[ $kind != int8 || $shard != weights ]] || shard=gradients
        run_on ${meshes[column]} $run "${part[@]}" training.steps=$steps recompute=${recomputes[column]} \
            parallel.shard=$shard
        ((column == 0)) || says out "after step $((steps - 2))"
        paste <(losses $run) <(losses $kind-one) | tail -n +$((steps - 1)) | head -n 2 | awk -v step=$steps '
            { apart = $2 > $4 ? $2 - $4 : $4 - $2
              if (NF != 4 || $1 != $3 || apart > 1e-5 * $2) exit 1 }
            END { if ($1 != step) exit 1 }' ||
            { fail "$kind on ${meshes[column]}: $(paste <(losses $run) <(losses $kind-one))"; return; }
    done
}
for row in "${runs[@]}"; do
    go_through $row
done

finish
