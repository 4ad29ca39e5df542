#!/usr/bin/env bash
# On a GPU, in sizes that the fast kernels support: 20 steps at once and 10 + resume + 10 give the
# same bits, and so do all recompute modes and recorded graphs.
. "$(dirname "$0")/lib.sh"
make_data
GPTRAIN_TEST_DEVICE=cuda make_spec

needs_gpu

# like OTHER NAME KEY=VALUE...: a run with the same choice of GEMM algorithms as the other.
like() {
    mkdir -p "$2/cache"
    cp "$1/cache/gemms.txt" "$2/cache" || fail "$1 has not kept its choice of GEMM algorithms"
    train 0 "${@:2}"
}

# same_bits NAME KEY=VALUE...
same_bits() {
    local name=$1
    shift
    train 0 "$name" "$@"
    like "$name" "$name-resumed" "$@" training.steps=10
    says out "finished after step 10"
    train 0 "$name-resumed" "$@"
    same_run "$name" "$name-resumed" 20
    for mode in none full; do
        like "$name" "$name-$mode" "$@" recompute=$mode
        # The runs' metrics differ in their memory.
        same "$(checkpoint "$name" 20)/shard-00000.h5" "$(checkpoint "$name-$mode" 20)/shard-00000.h5"
    done
    export GPTRAIN_CUDA_GRAPHS=1
    like "$name" "$name-graphs" "$@"
    unset GPTRAIN_CUDA_GRAPHS
    same_run "$name" "$name-graphs" 20
}

gpt2=(model.hidden_size=128 training.seq_length=128 training.micro_batch_size=2
    training.global_batch_size=4)
llama=("${gpt2[@]}" model.hidden_size=256 model.num_query_groups=1 model.position_embedding=rope
    model.normalization=rmsnorm model.activation=swiglu model.bias=false
    model.tie_embeddings=false)
same_bits bf16 "${gpt2[@]}" precision.compute=bf16 model.dropout=0.1
same_bits llama "${llama[@]}" precision.compute=bf16
same_bits fp32 "${gpt2[@]}" precision.compute=fp32

finish
