#!/usr/bin/env bash
# Measures how fast the GPT-2 124M shape reads a prompt and writes token by token on the CPU, with
# weights in fp32, bf16 and int8. The same process measures the limits of the machine: the rate of
# oneDNN's GEMM, and of loops that copy and read memory.
#
#   scripts/bench_decode.sh [--tokens N] [--rounds N]
#
#   --tokens N   tokens written after each prompt of 512 (64)
#   --rounds N   times that the three are measured, in turns (2)
#   BUILD=...    a build folder (otherwise build/cpu is configured)
#
# Prints one JSON object for each, which test/bench/bench_decode.cpp explains.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/options.sh"

tokens=64
rounds=2
take_options tokens rounds -- "$@"
cd "$(dirname "${BASH_SOURCE[0]}")/.."

build=${BUILD:-build/cpu}
if [[ -z ${BUILD:-} ]]; then
    scripts/install_dependencies.sh >&2
    cmake --preset cpu >&2
fi
cmake --build "$build" --target bench_decode >&2
for ((round = 0; round < rounds; ++round)); do
    for weights in fp32 bf16 int8; do
        "$build/test/bench/bench_decode" "$weights" "$tokens"
    done
done
