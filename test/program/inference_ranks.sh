#!/usr/bin/env bash
# Usage: inference_ranks.sh GPTRAIN GPT-PREPROCESS MPIRUN. `generate` and `eval` on several ranks
# give what one rank gives, whatever mesh computes it and whatever mesh trained.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/rank_lib.sh"
make_data
make_spec
model=(model.num_layers=4 model.num_attention_heads=4 model.num_query_groups=2
    training.global_batch_size=8 training.micro_batch_size=2 training.steps=40)
train 0 run "${model[@]}" model.max_position_embeddings=64
train 0 other "${model[@]}" model.position_embedding=rope model.normalization=rmsnorm \
    model.activation=swiglu model.tie_embeddings=false
make_text 7 30 >unseen.txt

# as_ranks CODE RANKS COMMAND... [-- KEY=VALUE...]: gptrain COMMAND on a mesh with these keys.
as_ranks() {
    local code=$1 ranks=$2 words=() keys=()
    shift 2
    while (($#)) && [[ $1 != -- ]]; do
        words+=("$1")
        shift
    done
    for key in "${@:2}"; do keys+=(--set "parallel.$key"); done
    timeout --signal=KILL 60 "$mpirun" -n "$ranks" "$gptrain" "${words[@]}" "${keys[@]}" >out 2>err
    ran "$code" $? "$ranks ranks, ${words[*]} ${keys[*]}"
}

# near: the loss in `out` equals that in `alone` except for the order of sums, over the same tokens.
near() {
    (($(grep -c '"loss"' out) == 1)) || fail "not one result: $(cat out)"
    paste -d ' ' alone out | tr '{}:,' ' ' | awk '
        { difference = $2 > $8 ? $2 - $8 : $8 - $2
          if (NF != 12 || $6 != $12 || difference > 2e-6 * $2) exit 1 }' ||
        fail "$*: $(cat alone out)"
}

eval_meshes=(
    "2 data=2"
    "2 tensor=2"
    "2 tensor=2 sequence_parallel=true"
    "2 pipeline=2"
    "2 context=2"
    "2 context=2 context_method=all_to_all"
    "4 pipeline=2 virtual_stages=2 schedule=interleaved_1f1b tensor=2"
    "4 pipeline=2 virtual_stages=2 schedule=zero_bubble"
    "4 tensor=4"
    "8 data=2 pipeline=2 tensor=2"
)
for run in run other; do
    expect_exit 0 "$gptrain" eval --checkpoint $run --data unseen.txt
    mv out alone
    for mesh in "${eval_meshes[@]}"; do
        as_ranks 0 "${mesh%% *}" eval --checkpoint $run --data unseen.txt -- ${mesh#* }
        near "$run, $mesh"
    done
done
expect_exit 0 "$gptrain" eval --checkpoint run --data text_text_document
mv out alone
as_ranks 0 4 eval --checkpoint run --data text_text_document -- pipeline=2
near "a token data set"
# Fewer windows than ranks.
echo "and the earth was without form" >short.txt
expect_exit 0 "$gptrain" eval --checkpoint run --data short.txt
mv out alone
as_ranks 0 4 eval --checkpoint run --data short.txt -- pipeline=2
near "a short text"
as_ranks 0 2 eval --checkpoint run --data short.txt -- tensor=2 sequence_parallel=true overlap_tensor=on
near "a short text in pieces"

generate_meshes=(
    "2 tensor=2"
    "4 tensor=4"
    "2 pipeline=2"
    "4 pipeline=4"
    "4 pipeline=2 tensor=2"
    "2 pipeline=2 virtual_stages=2 schedule=interleaved_1f1b"
    "2 pipeline=2 virtual_stages=2 schedule=zero_bubble"
)
prompt=(--prompt "and the earth" --max-tokens 40)
for run in run other; do
    for choice in "--temperature 0" "--seed 3"; do
        expect_exit 0 "$gptrain" generate --checkpoint $run "${prompt[@]}" $choice
        mv out alone
        (($(wc -c <alone) > 40)) || fail "too short a text: $(cat alone)"
        for mesh in "${generate_meshes[@]}"; do
            as_ranks 0 "${mesh%% *}" generate --checkpoint $run "${prompt[@]}" $choice -- ${mesh#* }
            same alone out
        done
    done
done
printf 'and the earth' >prompt.txt
expect_exit 0 "$gptrain" generate --checkpoint run "${prompt[@]}" --seed 4
mv out alone
as_ranks 0 2 generate --checkpoint run --prompt-file prompt.txt --max-tokens 40 --seed 4 -- tensor=2
same alone out
as_ranks 0 2 generate --checkpoint run --prompt "" --max-tokens 0 -- tensor=2

# A model trained on one mesh, used on another.
settings output_dir=mesh "${model[@]}" parallel.pipeline=2 parallel.tensor=2
timeout --signal=KILL 120 "$mpirun" -n 4 "$gptrain" --config run.yaml "${set[@]}" >out 2>err
ran 0 $? "training on 4 ranks"
expect_exit 0 "$gptrain" eval --checkpoint mesh --data unseen.txt
mv out alone
as_ranks 0 2 eval --checkpoint mesh --data unseen.txt -- pipeline=2
near "the run of a mesh"

# Damage that only one rank meets: all use the previous checkpoint.
expect_exit 0 "$gptrain" eval --checkpoint "$(checkpoint run 30)" --data unseen.txt
mv out alone
shard=$(checkpoint run 40)/shard-00000.h5
offset=$(sed -n 's/.*"name":"h.3.mlp.fc.weight".*"byte_offset":\([0-9]*\).*/\1/p' \
    "$(checkpoint run 40)/record-00000.json" | head -n 1)
cp "$shard" whole.h5
printf '\xff\xfe\xfd' | dd of="$shard" bs=1 seek="$offset" conv=notrunc status=none
as_ranks 0 2 eval --checkpoint run --data unseen.txt -- pipeline=2
near "after damage"
says err "warning: " "rank 1 (dp 0 pp 1 cp 0 tp 0)" "skipping checkpoint step-000040"
as_ranks 3 2 eval --checkpoint "$(checkpoint run 40)" --data unseen.txt -- pipeline=2
cp whole.h5 "$shard"

# An error is reported once.
as_ranks 2 2 generate --checkpoint run "${prompt[@]}"
says err "parallel.tensor x parallel.pipeline" "1 x 1; 2 were started"
as_ranks 2 2 generate --checkpoint run "${prompt[@]}" -- tensor=2 sequence_parallel=true
as_ranks 2 2 generate --checkpoint run "${prompt[@]}" -- context=2
as_ranks 2 3 eval --checkpoint run --data unseen.txt -- tensor=2
says err "3 ranks"
as_ranks 2 2 eval --checkpoint run --data unseen.txt --set model.num_layers=2
says err "--set model.num_layers=2" "comes from the checkpoint"
as_ranks 2 2 eval --checkpoint run --data unseen.txt -- tensr=2
says err "tensr" "tensor"
as_ranks 3 2 eval --checkpoint run --data missing.txt
says err missing.txt
as_ranks 2 2 eval --checkpoint nowhere --data unseen.txt
as_ranks 2 2 generate --checkpoint run --prompt "$(cat text.txt)" -- tensor=2
says err "64 positions"
expect_exit 2 "$gptrain" eval --checkpoint run --data unseen.txt --set parallel.tensor=2
says err "1 rank"

finish
