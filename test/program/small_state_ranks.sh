#!/usr/bin/env bash
# Usage: small_state_ranks.sh GPTRAIN GPT-PREPROCESS MPIRUN. Optimizer state in 8 bits and in bf16, and
# bf16 main weights: resumed equals uninterrupted, and no mesh or division of the state changes a bit,
# where the sums have one order.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/rank_lib.sh"
make_data
make_spec
sed -i 's/hidden_size: 16/hidden_size: 64, tie_embeddings: false/
    s/^optimizer: .*/optimizer: {lr: 0.01, clip_grad: 0}/' run.yaml
few="training.steps=6 checkpoint.interval=3 checkpoint.keep_last=4"

# continued FROM TO [KEY=VALUE...]: on one rank from the checkpoint of FROM after step 6, to step 7.
continued() {
    options=(--resume "$(checkpoint "$1" 6)")
    train 0 "$2" $few training.steps=7 checkpoint.interval=1 "${@:3}"
    options=()
}
# same_state A B [KEY=VALUE...]: the states after step 6, saved by any mesh, make the same step 7.
same_state() {
    continued "$1" "$1-on" "${@:3}"
    continued "$2" "$2-on" "${@:3}"
    same_shards "$1-on" "$2-on" 7
}

# proven NAME KEY=VALUE...
proven() {
    local name=$1
    shift
    run_on one $name-one "$@"
    # Its first half, then the rest: alone, and as two stages.
    for mesh in one pp; do
        run_on one $name-half-$mesh "$@" training.steps=3 lr_schedule.decay_steps=20
        run_on $mesh $name-half-$mesh "$@"
    done
    same_shards $name-one $name-half-one 6
    same_state $name-one $name-half-pp "$@"
    # Both ranks update everything, or each its part; after a half with sharded weights, too.
    run_on dp $name-whole "$@" parallel.shard_optimizer=false
    run_on dp $name-parts "$@" training.steps=3 lr_schedule.decay_steps=20
    run_on dp $name-parts "$@"
    run_on dp $name-both "$@" training.steps=3 lr_schedule.decay_steps=20 parallel.shard=weights
    run_on dp $name-both "$@"
    same_shards $name-parts $name-both 6
    same_state $name-whole $name-parts "$@"
}
proven 8bit optimizer.state=8bit
manifest=$(checkpoint 8bit-one 6)/manifest.json
says "$manifest" '"group":"exp_avg_codes","name":"h.0.attn.q.weight","dtype":"fp32","shape":[1024]' \
    '"group":"exp_avg_sq_scales","name":"wte.weight","dtype":"fp32","shape":[80]' \
    '"group":"exp_avg","name":"h.0.ln_1.weight"'
says_not "$manifest" '"group":"exp_avg","name":"h.0.attn.q.weight"'
proven bf16 optimizer.state=bf16 precision.compute=bf16 precision.main_weights=bf16

# Weights in bf16 are those of the checkpoint, whatever computes with them.
expect_exit 0 "$gptrain" generate --checkpoint "$(checkpoint bf16-one 6)" --prompt and --max-tokens 4 \
    --set precision.compute=fp32

# The formats of a run stay; other files have others.
train 2 8bit-one $few optimizer.state=bf16
says err "optimizer.state" 8bit bf16
train 2 bf16-one $few optimizer.state=bf16 precision.compute=bf16
says err "precision.main_weights" bf16 absent
# What a mesh or a format cannot have is one line.
settings output_dir=refused optimizer.state=8bit parallel.tensor=2
expect_exit 2 "$gptrain" --config run.yaml "${set[@]}" --dry-run --world-size 2
says err "optimizer.state: 8bit: parallel.tensor 2 cuts h.0.attn.proj.weight after each 32 elements"
train 2 refused precision.main_weights=bf16
says err "precision.main_weights: bf16 needs precision.compute bf16"

# The plan counts fewer bytes: of the 8 of each of the 139,264 elements of large matrices 4 remain, or
# 2.03 and what aligns scales.
planned() {
    settings output_dir=planned optimizer.state=$1
    expect_exit 0 "$gptrain" --config run.yaml "${set[@]}" --dry-run
    bytes=$(awk '/^  optimizer  / { print $NF }' out)
}
planned fp32 && fp32=$bytes
planned bf16 && bf16=$bytes
planned 8bit && codes=$bytes
((fp32 - bf16 == 4 * 139264)) || fail "$bf16 bytes in bf16, $fp32 in fp32"
((fp32 - codes > 59 * 139264 / 10 && fp32 - codes < 6 * 139264)) ||
    fail "$codes bytes in 8 bits, $fp32 in fp32"

finish
