# shellcheck shell=bash
# Sourced by scripts that run built programs, here or in a bundle that scripts/bundle.sh made. Sets
#   root    the folder above scripts/
#   commit  what was built
# and gives `program NAME`, its path, and `choose_attention`. BUILD is the build folder (build/cuda).
root=$(realpath "$(dirname "${BASH_SOURCE[0]}")/..")

# The programs of a bundle: NAME and path in a build folder. The first two are in every build.
bundle_programs=(
    "gptrain app/gptrain"
    "gpt-preprocess data_tools/gpt-preprocess"
    "test_comm test/comm/test_comm"
    "test_comm_gpu test/comm/test_comm_gpu"
    "test_gpu_ops test/gpu/test_gpu_ops"
    "test_gpu_model test/gpu/test_gpu_model"
    "test_parallel_gpu test/parallel/test_parallel_gpu"
    "bench_gpu test/bench/bench_gpu"
)

# shellcheck disable=SC2034
if [[ -f $root/BUNDLE ]]; then
    commit=$(sed -n 's/^commit: //p' "$root/BUNDLE")
    # Its NCCL (bundle.sh --nccl) comes before those of the machine.
    [[ ! -f $root/lib/libnccl.so.2 ]] ||
        export GPTRAIN_CUDA_LIBS=$root/lib${GPTRAIN_CUDA_LIBS:+:$GPTRAIN_CUDA_LIBS}
else
    commit=$(git -C "$root" describe --always --dirty 2>/dev/null || echo unknown)
fi

program() {
    local entry path
    if [[ -f $root/BUNDLE ]]; then
        path=$root/bin/$1
    else
        for entry in "${bundle_programs[@]}"; do
            [[ ${entry% *} == "$1" ]] && path=${BUILD:-$root/build/cuda}/${entry#* }
        done
    fi
    if [[ ! -x $path ]]; then
        echo "error: there is no $path; build it first:" \
            "cmake --preset cuda && cmake --build --preset cuda --target all bench_gpu" >&2
        return 2
    fi
    echo "$path"
}

# choose_attention GPTRAIN: as it does when it trains, for the programs started from now on. Kernels for
# sm_90a that hang or are wrong would cost all measurements.
choose_attention() {
    local fault
    [[ ! -v GPTRAIN_CUDA_ATTENTION ]] || return 0
    fault=$(timeout --kill-after=5 25 "$1" check-attention) || fault="exit code $?: $fault"
    if [[ -n $fault ]]; then
        echo "attention: portable kernels, because those for sm_90a fail: $fault" >&2
        export GPTRAIN_CUDA_ATTENTION=portable
    fi
}
